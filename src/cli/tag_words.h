// What `ublkctl tags` and `ublkctl tune` were given, as the daemon takes it.
//
// Thread rule: pure functions, plain values. Values are checked by the option tables, as in a config file.
#pragma once

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "config/parse.h"
#include "ublkd/result.h"

namespace ublkd::cli {

// An option of tune; its value goes into the change.
struct ChangeFlag {
  const char* spelling;
  std::string_view key;   // of the tag set or device
  std::string_view kind;  // "tag-set" or "device"
  const char* help;
};
[[nodiscard]] std::span<const ChangeFlag> change_flags();

struct TuneWords {
  std::string kind;
  std::string name;
  std::map<const ChangeFlag*, std::string> changes;  // those given
};

// Args of the verb tune. Errors: kind invalid.
[[nodiscard]] Result<nlohmann::json> tune_args(const TuneWords& words, TargetTypes types);

// Seconds from 0.1 to 60, with decimals.
[[nodiscard]] Result<std::chrono::milliseconds> watch_interval(const std::string& seconds);

}  // namespace ublkd::cli
