// AddWords: what `ublkctl add` was given, by option; translated into a device object of the config.
//
// Thread rule: pure functions, plain values.
// The words of other ublk tools mean here what they mean there, or are refused with what to write
// instead: none is taken and ignored. Values are checked by the option tables, as in a config file.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/parse.h"
#include "ublkd/result.h"

namespace ublkd::cli {

// Size of a null device that was given none, as the null targets of other ublk servers have it.
inline constexpr std::string_view null_size_default = "250GiB";

// An option of add whose value goes into the device object.
struct DeviceFlag {
  const char* spellings;  // for the parser: "-d,--depth"
  std::string_view key;   // of the device object
  const char* help;
};
[[nodiscard]] std::span<const DeviceFlag> device_flags();

// An option of other tools that has no counterpart here. The value "0" (off) is accepted.
struct RefusedFlag {
  const char* spellings;
  const char* advice;
};
[[nodiscard]] std::span<const RefusedFlag> refused_flags();

struct AddWords {
  std::vector<std::string> positionals;  // [TYPE] [FILE]
  std::optional<std::string> type;
  std::optional<std::string> file;
  std::optional<std::string> size;
  std::map<std::string, std::string, std::less<>> device;  // by key of the device object
  std::vector<std::string> target_options;                 // "key=value"
  bool read_only = false;
  bool buffered = false;
  std::vector<const RefusedFlag*> refused;  // given, and not as 0
};

struct AddDevice {
  nlohmann::json device;           // as in "devices" of a config
  std::vector<std::string> notes;  // what was filled in, for the user
};

// One value of a config object from a word of the command line, by the object's table. Errors: kind invalid.
[[nodiscard]] Result<nlohmann::json> option_value(std::span<const OptionSpec> table, std::string_view key,
                                                  const std::string& text, TargetTypes types);

// working_dir: a relative FILE is meant from there; the daemon has another. Errors: kind invalid.
[[nodiscard]] Result<AddDevice> device_from_words(const AddWords& words, const std::string& working_dir,
                                                  TargetTypes types);

}  // namespace ublkd::cli
