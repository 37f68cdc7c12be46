// What a tag set is made like, for the devices that are known when it is made.
//
// Thread rule: the control thread: backings are looked at, not opened.
#pragma once

#include <span>

#include "config/config.h"
#include "ublkd/target.h"

namespace ublkd {

// Settles what the config leaves open: depth (the least that one of the devices' backings takes, else 128) and the size
// of ring entries (big when a device needs them). devices: all of the config; those of other sets do not count.
void fit_to_devices(TagSetConfig& set, std::span<const DeviceConfig> devices, std::span<const TargetType* const> types);

// The set of a device that names none. Its depth is the device's, or what the backing takes when that is less.
[[nodiscard]] TagSetConfig private_set_config(const DeviceConfig& device, std::span<const TargetType* const> types);

// Error unsupported: the device needs big ring entries, and the set was made with small ones.
[[nodiscard]] Result<void> check_fit(const TagSetConfig& set, const DeviceConfig& device,
                                     std::span<const TargetType* const> types);

}  // namespace ublkd
