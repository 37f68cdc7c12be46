// LifeState: where a device is in its life, and the only ways from one place to the next.
//
//   configured -> opening -> adding -> attaching -> starting -> live -> stopping -> deleting -> gone
//                    |          |          |            |         ^  |      |  ^        |
//                    v          v          +------------+--> stopping|      v  |        v
//                   gone       gone                          refused-+    stuck <------+
//
// stuck: the kernel or a target did not answer in time; what is left is said, and a delete tries again.
#pragma once

#include <cstdint>

namespace ublkd {

enum class LifeState : std::uint8_t {
  configured,  // nothing done yet
  opening,     // the target is being opened
  adding,      // ADD_DEV, SET_PARAMS
  attaching,   // the kernel has it; hardware queues take it over
  starting,    // START_DEV
  live,
  stopping,  // STOP_DEV while the queues serve
  deleting,  // every command came back; DEL_DEV
  gone,
  stuck,
};

[[nodiscard]] const char* life_state_name(LifeState s);
[[nodiscard]] bool life_transition_allowed(LifeState from, LifeState to);

}  // namespace ublkd
