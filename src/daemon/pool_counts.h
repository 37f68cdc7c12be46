// PoolCounts: one reading of a tag pool: who holds what, waits for what, and what is whose.
//
// Thread rule: the control thread; the queues go on while their counters are read, and are neither stopped nor asked.
// Invariants of a reading, also of a busy pool:
//   1. taken - put = active for each device; the sum of active is at most the depth, and free is what it leaves.
//   2. taken and put of a device never go back from one reading to the next.
//   3. Times include what passed since the queue last counted them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mq/device_state.h"
#include "mq/share_params.h"

namespace ublkd {

// A device that takes tags of a pool, on one hardware queue or on all.
struct PoolMember {
  std::string device;
  std::uint32_t weight = 1;
  std::vector<const DeviceState*> queues;
};

struct Pool {
  std::optional<std::uint32_t> queue;  // hardware queue that owns it; empty: all of the set
  std::uint32_t depth = 0;
  std::vector<PoolMember> members;
};

struct MemberCounts {
  using Histogram = std::array<std::uint64_t, BatchHistogram::buckets>;

  std::string device;
  std::uint32_t weight = 1;
  std::uint64_t taken = 0, put = 0, active = 0;
  std::uint64_t waiting = 0;
  std::uint64_t peak = 0;
  Histogram asked{}, got{};
  std::uint64_t tag_time_ns = 0, waited_ns = 0, starved_ns = 0;
  std::uint64_t last_use_ns = 0;  // 0: never
  std::uint64_t idle_changes = 0, leftovers = 0, timeouts = 0;
  bool in_use = false;            // holds, waits, or used a tag within the policy's time
  double share = 0;               // tags that are its own while it asks for them
  double borrowed = 0;            // held beyond that
};

struct PoolCounts {
  std::optional<std::uint32_t> queue;
  std::uint32_t depth = 0;
  std::uint64_t active = 0, free = 0, waiting = 0;
  std::uint32_t devices_in_use = 0;
  std::uint64_t weight_in_use = 0;  // sum over the devices in use
  std::vector<MemberCounts> members;
};

// Tags that are a device's own, with users devices in use, itself included, of weight_sum together.
[[nodiscard]] double share_in_force(SharePolicy policy, std::uint32_t depth, std::uint32_t weight, std::uint32_t users,
                                    std::uint64_t weight_sum);

// Tags of the states, each from taken and put at one moment, or from two moments of which the later puts are not
// counted: so nothing is shown as held twice while it goes from one device to another.
struct TagsMoved {
  std::uint64_t taken = 0, put = 0;
};
[[nodiscard]] std::vector<TagsMoved> read_tags(std::span<const DeviceState* const> states);

[[nodiscard]] PoolCounts read_pool(const Pool& pool, const ShareParams& params);

}  // namespace ublkd
