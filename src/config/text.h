// Words for messages: quoting of what was found, the nearest known word, lists.
//
// Thread rule: pure functions, any thread.
// Invariant: everything returned is valid UTF-8 on one line, whatever the input was, so that it can
//   go into a log line or a JSON answer as it is.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace ublkd {

// Bytes of the UTF-8 sequence at the start of text (1..4), 0 when there is no valid one.
[[nodiscard]] std::size_t utf8_sequence(std::string_view text);
[[nodiscard]] bool is_utf8(std::string_view text);

// text in double quotes; control characters and broken bytes as \xNN, cut after 60 bytes.
[[nodiscard]] std::string in_quotes(std::string_view text);

// The known word a user most likely meant: at most one edit per three letters away. Empty: none.
[[nodiscard]] std::string_view nearest_word(std::string_view word, std::span<const std::string_view> known);

// "a, b, c".
[[nodiscard]] std::string joined(std::span<const std::string_view> words);

}  // namespace ublkd
