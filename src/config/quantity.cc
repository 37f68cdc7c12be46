#include "config/quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <vector>

#include "config/text.h"

namespace ublkd {

namespace {

constexpr QuantityUnit sizes[] = {
    {"B", 1},
    {"KiB", std::uint64_t{1} << 10},
    {"MiB", std::uint64_t{1} << 20},
    {"GiB", std::uint64_t{1} << 30},
    {"TiB", std::uint64_t{1} << 40},
    {"PiB", std::uint64_t{1} << 50},
};
constexpr QuantityUnit durations[] = {{"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}};

constexpr std::uint64_t number_max = std::numeric_limits<std::uint64_t>::max();

Unexpected refuse(std::string_view text, std::string advice) {
  return fail(ErrorKind::invalid, "", in_quotes(text), std::move(advice));
}

std::string suffix_list(std::span<const QuantityUnit> units) {
  std::vector<std::string_view> words;
  for (const QuantityUnit& unit : units) words.push_back(unit.suffix);
  return joined(words);
}

// "M", "m", "MB", "mib": what some tool reads as MiB and another as 10^6. Null when it is none.
const QuantityUnit* meant_unit(std::string_view suffix) {
  if (suffix.empty() || suffix.size() > 3) return nullptr;
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  std::string word;
  for (const char c : suffix) word += lower(c);
  for (const QuantityUnit& unit : std::span(sizes).subspan(1)) {
    const std::string letter(1, lower(unit.suffix[0]));
    if (word == letter || word == letter + "b" || word == letter + "ib" || word == letter + "i") return &unit;
  }
  return nullptr;
}

// The decimal factor of the n-th binary unit.
std::uint64_t decimal_factor(const QuantityUnit& unit) {
  std::uint64_t factor = 1;
  for (const QuantityUnit* u = std::begin(sizes); u != &unit; ++u) factor *= 1000;
  return factor;
}

// What to write instead of an ambiguous size; empty when there is nothing to say.
std::string clearer_size(std::uint64_t count, std::string_view suffix) {
  const QuantityUnit* unit = meant_unit(suffix);
  if (unit == nullptr) return {};
  const std::uint64_t decimal = decimal_factor(*unit);
  if (count > number_max / unit->factor) return {};
  return fmt::format("; tools read it differently, write \"{}{}\" ({} bytes) or {}", count, unit->suffix,
                     count * unit->factor, count * decimal);
}

Result<std::uint64_t> parse_quantity(std::string_view text, std::span<const QuantityUnit> units,
                                     std::string_view what) {
  const std::string expected = fmt::format("expected {} as digits directly followed by one of {}, found {}",
                                           what, suffix_list(units), in_quotes(text));
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0) return refuse(text, expected);
  const auto count = parse_whole(text.substr(0, digits));
  if (!count) return Unexpected(count.error());
  const std::string_view suffix = text.substr(digits);
  if (suffix.empty())
    return refuse(text, fmt::format("{}; write {} without quotes, or with a suffix", expected, *count));
  const auto unit = std::ranges::find(units, suffix, &QuantityUnit::suffix);
  if (unit == units.end())
    return refuse(text, expected + (units.data() == sizes ? clearer_size(*count, suffix) : ""));
  if (*count > number_max / unit->factor)
    return refuse(text, fmt::format("expected {} below 2^64, found {}", what, in_quotes(text)));
  return *count * unit->factor;
}

}  // namespace

std::span<const QuantityUnit> size_units() {
  return sizes;
}
std::span<const QuantityUnit> duration_units() {
  return durations;
}

Result<std::uint64_t> parse_size_bytes(std::string_view text) {
  return parse_quantity(text, sizes, "a size");
}

Result<std::uint64_t> parse_duration_ns(std::string_view text) {
  return parse_quantity(text, durations, "a duration");
}

Result<std::uint64_t> parse_whole(std::string_view text) {
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos)
    return refuse(text, fmt::format("expected a whole number in decimal digits, found {}", in_quotes(text)));
  if (text.size() > 1 && text[0] == '0')
    return refuse(text, fmt::format("expected a number without leading zeros, found {}", in_quotes(text)));
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{})
    return refuse(text, fmt::format("expected a whole number below 2^64, found {}", in_quotes(text)));
  return value;
}

std::string quantity_pattern(std::span<const QuantityUnit> units) {
  std::string suffixes;
  for (const QuantityUnit& unit : units) {
    if (!suffixes.empty()) suffixes += '|';
    suffixes += unit.suffix;
  }
  return "^(0|[1-9][0-9]*)(" + suffixes + ")$";
}

}  // namespace ublkd
