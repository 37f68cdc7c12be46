// Config structs -> JSON, for status output and for sending a device to the daemon.
//
// Thread rule: pure functions, any thread.
// Invariants:
//   1. Sizes are bytes, durations nanoseconds, both as numbers: no rounding, nothing to guess.
//   2. What is written reads back (parse.h) as an equal value.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "config/config.h"
#include "ublkd/options.h"

namespace ublkd {

[[nodiscard]] nlohmann::json to_json(const OptionValues& values);
// {"type": "null", "size": 1073741824}
[[nodiscard]] nlohmann::json to_json(const TargetSpec& spec);
// As in "devices" of a config; what the daemon chooses is left out.
[[nodiscard]] nlohmann::json to_json(const DeviceConfig& device);

}  // namespace ublkd
