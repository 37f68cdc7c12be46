// Option tables of the config objects, and what a table entry means in words.
//
// Thread rule: constants and pure functions, any thread.
// The tables of the targets stand with the targets. Reader (option_reader.h), schema (schema.h) and
// command line are made from these tables, so a limit is written once, here.
// For an integer or a size, non-empty `choices` lists all allowed values in decimal.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ublkd/options.h"

namespace ublkd {

inline constexpr std::size_t name_bytes_max = 64;
inline constexpr std::size_t text_bytes_max = 4095;  // PATH_MAX without its NUL
inline constexpr std::size_t devices_count_max = 4096;
inline constexpr std::size_t tag_sets_count_max = 256;

// One entry of "tag_sets"; its name is the key.
[[nodiscard]] std::span<const OptionSpec> tag_set_options();
// One entry of "devices".
[[nodiscard]] std::span<const OptionSpec> device_options();

// Keys of the whole file.
[[nodiscard]] std::span<const std::string_view> top_level_keys();

// Names of devices and tag sets as a regular expression: letters, digits, '.', '_', '-', beginning
// with a letter or digit. Digits alone and "ublkb" + digits are taken: both name a device by its id.
inline constexpr std::string_view name_pattern =
    "^(?![0-9]+$)(?!ublkb[0-9]+$)[A-Za-z0-9][A-Za-z0-9._-]{0,63}$";
[[nodiscard]] bool is_valid_name(std::string_view name);

// What the option takes, for messages: "a size from 512 to 4096, a multiple of 512: ...".
[[nodiscard]] std::string expected_words(const OptionSpec& spec);

// True when value is inside range, grid and choices of an integer, size or duration.
[[nodiscard]] bool is_allowed(const OptionSpec& spec, std::uint64_t value);

}  // namespace ublkd
