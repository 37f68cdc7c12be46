// Wire: the lines of the local API. One JSON object per line:
//
//   request  {"verb": "add", "args": {...}}\n
//   reply    {"ok": true, "result": ...}\n   or
//            {"ok": false, "error": {"kind": "busy", "message": "..."}}\n
//
// Thread rule: pure functions; any thread. None throws.
// Invariants:
//   1. A line is at most line_bytes_max long and nests at most nesting_max deep, so that neither
//      reading nor printing it can exhaust memory or stack.
//   2. What is printed is UTF-8: foreign bytes (file names) become U+FFFD.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "ublkd/result.h"

namespace ublkd::api {

inline constexpr std::size_t line_bytes_max = std::size_t{1} << 20;
inline constexpr std::size_t nesting_max = 64;

struct Request {
  std::string verb;
  nlohmann::json args = nlohmann::json::object();
};

// JSON text of one value; error invalid with the place of the fault.
[[nodiscard]] Result<nlohmann::json> parse_json(std::string_view text, const std::string& what);

[[nodiscard]] Result<Request> parse_request(std::string_view line);
[[nodiscard]] std::string request_line(const std::string& verb, const nlohmann::json& args);

[[nodiscard]] std::string reply_line(const Result<nlohmann::json>& result);
// The result of a reply, or the error the daemon sent.
[[nodiscard]] Result<nlohmann::json> parse_reply(std::string_view line);

// {"kind": ..., "message": ...}, as it stands in replies and in `ublkctl -o json`.
[[nodiscard]] nlohmann::json error_json(const Error& error);

// One line (indent < 0) or indented text; never throws on foreign bytes.
[[nodiscard]] std::string json_text(const nlohmann::json& value, int indent);

}  // namespace ublkd::api
