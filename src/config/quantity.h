// Quantities written as text: sizes ("64MiB"), durations ("10us"), whole numbers ("128").
//
// Thread rule: pure functions, any thread.
// One rule for config and command line: digits without leading zero, directly followed by a suffix of
// the closed list, upper and lower case as listed. Suffixes that tools read differently (K, M, GB, ...)
// are refused: between 1 GB and 1 GiB lie 7 %.
// Errors: kind invalid, subject the text, advice "expected ..., found ...; what to write".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ublkd/result.h"

namespace ublkd {

struct QuantityUnit {
  std::string_view suffix;
  std::uint64_t factor;
};

// B, KiB, MiB, GiB, TiB, PiB: powers of 1024 bytes.
[[nodiscard]] std::span<const QuantityUnit> size_units();
// ns, us, ms, s.
[[nodiscard]] std::span<const QuantityUnit> duration_units();

[[nodiscard]] Result<std::uint64_t> parse_size_bytes(std::string_view text);
[[nodiscard]] Result<std::uint64_t> parse_duration_ns(std::string_view text);
[[nodiscard]] Result<std::uint64_t> parse_whole(std::string_view text);

// Regular expression of the forms with a suffix, for the schema.
[[nodiscard]] std::string quantity_pattern(std::span<const QuantityUnit> units);

}  // namespace ublkd
