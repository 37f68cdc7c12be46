#include "control/life_state.h"

#include <array>
#include <cstddef>

namespace ublkd {

namespace {

struct Transition {
  LifeState from, to;
};

using enum LifeState;

constexpr std::array transitions{
    Transition{configured, opening}, Transition{opening, adding},    Transition{opening, gone},
    Transition{adding, attaching},   Transition{adding, gone},       Transition{adding, deleting},
    Transition{attaching, starting}, Transition{attaching, stopping}, Transition{starting, live},
    Transition{starting, stopping},  Transition{live, stopping},     Transition{stopping, live},
    Transition{stopping, deleting},  Transition{stopping, stuck},    Transition{deleting, gone},
    Transition{deleting, stuck},     Transition{stuck, stopping},
};

constexpr std::array names{"configured", "opening",  "adding",   "attaching", "starting",
                           "live",       "stopping", "deleting", "gone",      "stuck"};

}  // namespace

const char* life_state_name(LifeState s) { return names[static_cast<std::size_t>(s)]; }

bool life_transition_allowed(LifeState from, LifeState to) {
  for (const Transition& t : transitions)
    if (t.from == from && t.to == to) return true;
  return false;
}

}  // namespace ublkd
