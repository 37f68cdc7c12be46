// Log front end: one line per change of state, to stderr, with a journal priority ("<6>") in front
// when stderr is not a terminal.
//
// Thread rule: any thread but the data path; a line is written whole.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

namespace ublkd {

enum class LogLevel : std::uint8_t { debug, info, notice, warning, error };

// Lines below level are dropped. Call once, before threads start.
void log_init(LogLevel level);
[[nodiscard]] bool log_wanted(LogLevel level);
void log_line(LogLevel level, std::string_view text);

template <typename... A>
void log_at(LogLevel level, fmt::format_string<A...> f, A&&... a) {
  if (log_wanted(level)) log_line(level, fmt::format(f, std::forward<A>(a)...));
}
template <typename... A>
void log_debug(fmt::format_string<A...> f, A&&... a) {
  log_at(LogLevel::debug, f, std::forward<A>(a)...);
}
template <typename... A>
void log_info(fmt::format_string<A...> f, A&&... a) {
  log_at(LogLevel::info, f, std::forward<A>(a)...);
}
template <typename... A>
void log_notice(fmt::format_string<A...> f, A&&... a) {
  log_at(LogLevel::notice, f, std::forward<A>(a)...);
}
template <typename... A>
void log_warning(fmt::format_string<A...> f, A&&... a) {
  log_at(LogLevel::warning, f, std::forward<A>(a)...);
}
template <typename... A>
void log_error(fmt::format_string<A...> f, A&&... a) {
  log_at(LogLevel::error, f, std::forward<A>(a)...);
}

}  // namespace ublkd
