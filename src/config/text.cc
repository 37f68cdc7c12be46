#include "config/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace ublkd {

namespace {

constexpr std::size_t quoted_bytes_max = 60;
constexpr std::size_t word_bytes_max = 64;  // longer words are no typing mistake of a key

// Levenshtein distance with one row.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replace, row[j] + 1, diagonal + 1});
    }
  }
  return row[b.size()];
}

// The code point of a well-formed lead byte plus continuation bytes; ill-formed: above U+10FFFF.
std::uint32_t code_point(std::string_view text, std::size_t bytes) {
  auto value = static_cast<std::uint32_t>(static_cast<unsigned char>(text[0]) & (0xffU >> (bytes + 1)));
  for (std::size_t i = 1; i < bytes; ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c & 0xc0U) != 0x80U) return ~0U;
    value = (value << 6) | (c & 0x3fU);
  }
  return value;
}

}  // namespace

std::size_t utf8_sequence(std::string_view text) {
  if (text.empty()) return 0;
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return 1;
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return 0;
  constexpr std::uint32_t smallest[] = {0x80, 0x800, 0x10000};
  const std::uint32_t value = code_point(text, bytes);
  const bool surrogate = value >= 0xd800 && value <= 0xdfff;
  return value < smallest[bytes - 2] || value > 0x10ffff || surrogate ? 0 : bytes;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = utf8_sequence(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  std::size_t used = 0;
  while (used < text.size() && used < quoted_bytes_max) {
    const std::size_t bytes = utf8_sequence(text.substr(used));
    const auto c = static_cast<unsigned char>(text[used]);
    if (bytes == 0 || c < 0x20 || c == 0x7f) {
      out += fmt::format("\\x{:02x}", c);
      ++used;
    } else {
      out += text.substr(used, bytes);
      used += bytes;
    }
  }
  return out + (used < text.size() ? "...\"" : "\"");
}

std::string_view nearest_word(std::string_view word, std::span<const std::string_view> known) {
  if (word.size() > word_bytes_max) return {};
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string_view candidate : known) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance >= best_distance) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

std::string joined(std::span<const std::string_view> words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace ublkd
