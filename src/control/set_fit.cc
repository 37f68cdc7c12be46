#include "control/set_fit.h"

#include <algorithm>

namespace ublkd {

namespace {

constexpr std::uint32_t depth_default = 128;

void use_entries(TagSetConfig& set, bool big) {
  if (set.ring_entries == RingEntries::automatic) set.ring_entries = big ? RingEntries::big : RingEntries::small;
}

}  // namespace

void fit_to_devices(TagSetConfig& set, std::span<const DeviceConfig> devices,
                    std::span<const TargetType* const> types) {
  std::uint32_t depth = depth_max + 1;
  bool big = false;
  for (const DeviceConfig& device : devices) {
    if (device.tag_set != set.name) continue;
    const TargetNeeds needs = target_needs(device.target, types);
    big |= needs.big_entries;
    if (needs.depth != 0) depth = std::min(depth, needs.depth);
  }
  use_entries(set, big);
  if (set.depth == 0) set.depth = depth > depth_max ? depth_default : depth;
}

TagSetConfig private_set_config(const DeviceConfig& device, std::span<const TargetType* const> types) {
  const TargetNeeds needs = target_needs(device.target, types);
  TagSetConfig set;
  set.name = device.name.empty() ? device.target.type : device.name;
  set.hw_queues = std::max(device.queues, 1u);
  set.depth = needs.depth == 0 ? device.depth : std::min(device.depth, needs.depth);
  set.devices_max = 1;
  set.slots_total_max = device.depth;
  set.is_private = true;
  use_entries(set, needs.big_entries);
  return set;
}

Result<void> check_fit(const TagSetConfig& set, const DeviceConfig& device, std::span<const TargetType* const> types) {
  if (set.ring_entries == RingEntries::big || !target_needs(device.target, types).big_entries) return {};
  return fail(ErrorKind::unsupported, "add device", device.name.empty() ? "new device" : device.name,
              "tag set '" + set.name + "' was made with small ring entries, and the target " + device.target.type +
                  " needs big ones; set ring_entries: big for the set and start again, or leave tag_set out");
}

}  // namespace ublkd
