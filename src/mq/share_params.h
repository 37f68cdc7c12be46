// How the devices of a tag set share its tags: what the user can choose, and change while it runs.
//
// Thread rule: plain values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace ublkd {

enum class SharePolicy : std::uint8_t {
  none,      // first come, first served
  equal,     // blk-mq's rule for shared tags: a fixed part for each active device
  adaptive,  // max-min by weight in tag-time; what one leaves, the others use
};
inline constexpr std::string_view share_policy_names[] = {"none", "equal", "adaptive"};
[[nodiscard]] constexpr std::string_view share_policy_name(SharePolicy p) {
  return share_policy_names[static_cast<std::size_t>(p)];
}

enum class TagScope : std::uint8_t {
  queue,  // each hardware queue has its own tags
  set,    // all hardware queues of the set share one pool
};
inline constexpr std::string_view tag_scope_names[] = {"queue", "set"};
[[nodiscard]] constexpr std::string_view tag_scope_name(TagScope s) {
  return tag_scope_names[static_cast<std::size_t>(s)];
}

// equal: the most tags a device may hold when users devices are active (blk-mq, hctx_may_queue). users: 1 or more.
[[nodiscard]] constexpr std::uint32_t equal_part(std::uint32_t depth, std::uint32_t users) {
  constexpr std::uint32_t part_min = 4;
  return std::min(depth, std::max((depth + users - 1) / users, part_min));
}

struct ShareParams {
  SharePolicy policy = SharePolicy::adaptive;
  std::uint64_t grace_ns = 5'000'000;        // adaptive: how long a device's use is remembered
  std::uint64_t idle_after_ns = 5'000'000'000;  // equal: how long after its last use a device counts

  [[nodiscard]] std::uint64_t active_for_ns() const {
    return policy == SharePolicy::equal ? idle_after_ns : grace_ns;
  }
};

inline constexpr std::uint32_t weight_max = 1000;
// adaptive: a device that came back within this time is known, and a tag is spared for it for as long.
inline constexpr std::uint64_t known_for_ns = 10'000'000'000;

}  // namespace ublkd
