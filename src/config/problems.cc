#include "config/problems.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/text.h"

namespace ublkd {

namespace {

bool is_plain_key_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '$' || c == '.';
}

}  // namespace

void Problems::add(TextPosition at, std::string_view path, std::string message) {
  if (found_.size() == problems_max) {
    ++dropped_;
    return;
  }
  std::string place;
  if (!origin_.empty()) {
    place = at.line == 0 ? origin_ : fmt::format("{}:{}:{}", origin_, at.line, at.column);
    if (!path.empty()) place += ": ";
  }
  place += path;
  if (place.empty()) place = "input";
  found_.push_back({std::move(place), std::move(message)});
}

Unexpected Problems::error() const {
  std::string advice = found_.front().message;
  for (std::size_t i = 1; i < found_.size(); ++i)
    advice += fmt::format("\n{}: {}", found_[i].place, found_[i].message);
  if (dropped_ != 0) advice += fmt::format("\nand {} more", dropped_);
  return fail(ErrorKind::invalid, "", found_.front().place, std::move(advice));
}

std::string member_path(std::string_view path, std::string_view key) {
  const bool plain = !key.empty() && key.size() <= 64 && std::ranges::all_of(key, is_plain_key_char);
  std::string out(path);
  if (!out.empty()) out += '.';
  return out + (plain ? std::string(key) : in_quotes(key));
}

std::string item_path(std::string_view path, std::size_t index) {
  return fmt::format("{}[{}]", path, index);
}

}  // namespace ublkd
