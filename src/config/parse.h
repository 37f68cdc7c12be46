// From JSON text to the config structs, and what holds between their parts.
//
// Thread rule: control thread; load_config blocks on file or standard input.
// No exception leaves. Errors: kind invalid with all problems found (problems.h), or what reading the
// file gave. Target types come from outside: this room knows none.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "config/config.h"
#include "ublkd/result.h"
#include "ublkd/target.h"

namespace ublkd {

using TargetTypes = std::span<const TargetType* const>;

inline constexpr std::uint32_t slots_default = 128;  // of a device that sets no depth

// origin: file name for messages; without one, messages carry key paths only.
[[nodiscard]] Result<Config> parse_config(std::string_view text, std::string origin, TargetTypes types);

// path "-": standard input, named so in messages.
[[nodiscard]] Result<Config> load_config(const std::string& path, TargetTypes types);

// One entry of "devices" as text, as the API's `add` gets it. Whether its tag set exists and its name
// is free, only the running daemon knows.
[[nodiscard]] Result<DeviceConfig> parse_device(std::string_view text, std::string origin, TargetTypes types);

// Changes of a running tag set or device, as the API's `tune` gets them: an object with at least one of the keys
// policy, grace, idle_after, which change what share has; or with the key weight.
[[nodiscard]] Result<ShareParams> parse_share_change(std::string_view text, const ShareParams& share);
[[nodiscard]] Result<std::uint32_t> parse_weight_change(std::string_view text);

}  // namespace ublkd
