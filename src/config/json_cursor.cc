#include "config/json_cursor.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/text.h"

namespace ublkd {

namespace {

constexpr std::string_view separators = " \t\r\n,:";
constexpr std::string_view blanks = " \t\r\n";
constexpr std::string_view delimiters = " \t\r\n,:[]{}\"";

struct Complaint {
  std::string_view words;     // in nlohmann's message
  std::string_view expected;  // in ours
};

// In this order: "object" is the start of the first two.
constexpr Complaint complaints[] = {
    {"; expected end of input", "the end of the text"},
    {"while parsing object key", "a key in double quotes"},
    {"while parsing object separator", "':' after the key"},
    {"while parsing object", "',' or '}'"},
    {"while parsing array", "',' or ']'"},
};

std::string_view expected_words(std::string_view complaint) {
  for (const Complaint& c : complaints)
    if (complaint.find(c.words) != std::string_view::npos) return c.expected;
  return "a value";
}

bool is_infinity_or_nan(std::string_view token) {
  if (token.starts_with('-') || token.starts_with('+')) token.remove_prefix(1);
  constexpr std::string_view words[] = {"NaN", "nan", "Infinity", "infinity", "Inf", "inf"};
  return std::ranges::find(words, token) != std::end(words);
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Advice for the ways of writing that other readers take; empty: none applies.
std::string_view advice_for(std::string_view token) {
  if (token.starts_with("//") || token.starts_with("/*") || token.starts_with('#'))
    return "comments are not accepted; remove it";
  if (is_infinity_or_nan(token)) return "not a JSON number; write a whole number";
  if (token.starts_with("0x") || token.starts_with("0X")) return "write the number in decimal digits";
  if (token.size() > 1 && token[0] == '0' && is_digit(token[1]))
    return "write the number without leading zeros";
  if (token.starts_with('+')) return "write the number without '+'";
  if (token.starts_with('\'')) return "use double quotes";
  if (token.starts_with(',')) return "remove the comma or put a value before it";
  return {};
}

// The bad token as far as it is of use in a message.
std::string_view token_at(std::string_view text) {
  if (text.starts_with("//") || text.starts_with("/*")) return text.substr(0, 2);
  const std::size_t end = std::max<std::size_t>(1, std::min(text.find_first_of(delimiters), text.size()));
  return text.substr(0, end);
}

// "... - invalid string: REASON; last read: ..." -> "REASON"; empty when it is no such complaint.
std::string_view string_reason(std::string_view complaint) {
  constexpr std::string_view intro = "invalid string: ";
  const std::size_t begin = complaint.find(intro);
  if (begin == std::string_view::npos) return {};
  complaint.remove_prefix(begin + intro.size());
  return complaint.substr(0, complaint.find("; last read"));
}

bool is_unclosed(std::string_view reason) {
  return reason.starts_with("missing closing quote");
}

}  // namespace

TextPosition position_at(std::string_view text, std::size_t offset_bytes) {
  TextPosition at{1, 1};
  for (const char c : text.substr(0, offset_bytes)) {
    if (c == '\n')
      at = {at.line + 1, 1};
    else if ((static_cast<unsigned char>(c) & 0xc0U) != 0x80U)
      ++at.column;
  }
  return at;
}

void JsonCursor::step() {
  const auto c = static_cast<unsigned char>(text_[offset_++]);
  if (c == '\n')
    position_ = {position_.line + 1, 1};
  else if ((c & 0xc0U) != 0x80U)
    ++position_.column;
}

void JsonCursor::skip_separators(std::size_t end) {
  while (offset_ < end && separators.find(text_[offset_]) != std::string_view::npos) step();
}

TextPosition JsonCursor::next_token() {
  skip_separators(text_.size());
  token_offset_ = offset_;
  const TextPosition begin = position_;
  if (offset_ == text_.size()) return begin;
  const char first = text_[offset_];
  step();
  if (first == '"') {
    while (offset_ < text_.size() && text_[offset_] != '"') {
      if (text_[offset_] == '\\' && offset_ + 1 < text_.size()) step();
      step();
    }
    if (offset_ < text_.size()) step();
  } else if (delimiters.find(first) == std::string_view::npos) {
    while (offset_ < text_.size() && delimiters.find(text_[offset_]) == std::string_view::npos) step();
  }
  return begin;
}

// Where the bad token begins. It lies between the last event and what the parser has read, or, where
// the parser split what a user sees as one token ("0x10" is 0 and then x), it is the last event's.
std::size_t JsonCursor::problem_offset(std::size_t bytes_read, std::string_view complaint) const {
  const std::size_t last = std::min(bytes_read == 0 ? 0 : bytes_read - 1, text_.size());
  const std::string_view reason = string_reason(complaint);
  if (!reason.empty() && !is_unclosed(reason)) return last;
  if (offset_ > last) return token_offset_;
  JsonCursor ahead = *this;
  ahead.skip_separators(last);
  return ahead.offset_;
}

SyntaxProblem JsonCursor::explain(std::size_t bytes_read, std::string_view complaint) const {
  const std::size_t offset = problem_offset(bytes_read, complaint);
  const std::string_view rest = text_.substr(offset);
  const TextPosition at = position_at(text_, offset);
  if (const std::string_view reason = string_reason(complaint); !reason.empty())
    return {at, is_unclosed(reason) ? "expected a closing double quote, found the end of the text"
                                    : fmt::format("expected a valid string, found otherwise: {}", reason)};
  if (rest.empty())
    return {at, fmt::format("expected {}, found the end of the text", expected_words(complaint)), true};
  const std::size_t before = text_.substr(0, offset).find_last_not_of(blanks);
  const bool closes = rest[0] == ']' || rest[0] == '}';
  if (closes && before != std::string_view::npos && text_[before] == ',')
    return {position_at(text_, before),
            fmt::format("expected a value after ',', found '{}'; trailing commas are "
                        "not accepted, remove the comma",
                        rest[0])};
  const std::string_view token = token_at(rest);
  if (complaint.find("number overflow") != std::string_view::npos)
    return {at, fmt::format("expected a whole number below 2^64, found {}", in_quotes(token))};
  const std::string_view advice = advice_for(token);
  return {at, fmt::format("expected {}, found {}{}{}", expected_words(complaint), in_quotes(token),
                          advice.empty() ? "" : "; ", advice)};
}

}  // namespace ublkd
