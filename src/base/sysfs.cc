#include "base/sysfs.h"

#include <charconv>

#include "base/fd.h"

namespace ublkd {

namespace {

constexpr std::size_t text_bytes_max = 4096;
constexpr const char* blanks = " \t\n";

}  // namespace

std::optional<std::string> sysfs_text(const std::string& path) {
  const auto text = read_file(path, text_bytes_max);
  if (!text) return std::nullopt;
  const auto first = text->find_first_not_of(blanks);
  if (first == std::string::npos) return std::string{};
  return text->substr(first, text->find_last_not_of(blanks) - first + 1);
}

std::optional<std::uint64_t> sysfs_number(const std::string& path) {
  const auto text = sysfs_text(path);
  if (!text) return std::nullopt;
  std::uint64_t value = 0;
  const auto end = std::from_chars(text->data(), text->data() + text->size(), value);
  return end.ec == std::errc() ? std::optional(value) : std::nullopt;
}

}  // namespace ublkd
