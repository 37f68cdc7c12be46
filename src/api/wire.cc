#include "api/wire.h"

#include <algorithm>
#include <array>
#include <exception>

namespace ublkd::api {

namespace {

using nlohmann::json;

constexpr std::array error_kinds{ErrorKind::invalid,  ErrorKind::not_found,  ErrorKind::exists,
                                 ErrorKind::busy,     ErrorKind::permission, ErrorKind::unsupported,
                                 ErrorKind::no_space, ErrorKind::no_memory,  ErrorKind::limit,
                                 ErrorKind::timeout,  ErrorKind::io,         ErrorKind::internal};

ErrorKind kind_from_name(std::string_view name) {
  const auto it = std::find_if(error_kinds.begin(), error_kinds.end(),
                               [&](ErrorKind kind) { return name == kind_name(kind); });
  return it == error_kinds.end() ? ErrorKind::internal : *it;
}

// Deepest nesting of brackets outside strings. Counted on the text, because printing a JSON value
// recurses once per level.
std::size_t nesting_of(std::string_view text) {
  std::size_t depth = 0;
  std::size_t deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '{' || c == '[') deepest = std::max(deepest, ++depth);
    if ((c == '}' || c == ']') && depth > 0) --depth;
  }
  return deepest;
}

const json* member(const json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}

Error bad_request(std::string advice) {
  return Error{ErrorKind::invalid, 0, "request", "", std::move(advice)};
}

}  // namespace

Result<json> parse_json(std::string_view text, const std::string& what) {
  if (nesting_of(text) > nesting_max)
    return fail(ErrorKind::limit, "parse", what, "nested deeper than " + std::to_string(nesting_max));
  try {
    return json::parse(text);
  } catch (const std::exception& e) {
    return fail(ErrorKind::invalid, "parse", what, std::string("not JSON: ") + e.what());
  }
}

Result<Request> parse_request(std::string_view line) {
  auto value = parse_json(line, "request");
  if (!value) return Unexpected(value.error());
  if (!value->is_object())
    return Unexpected(bad_request("expected an object {\"verb\": ..., \"args\": {...}}"));
  Request request;
  const json* verb = member(*value, "verb");
  if (verb == nullptr || !verb->is_string()) return Unexpected(bad_request("\"verb\" must be a string"));
  request.verb = verb->get<std::string>();
  if (const json* args = member(*value, "args")) {
    if (!args->is_object()) return Unexpected(bad_request("\"args\" must be an object"));
    request.args = *args;
  }
  for (const auto& item : value->items())
    if (item.key() != "verb" && item.key() != "args")
      return Unexpected(bad_request("unknown key \"" + item.key() + "\"; expected \"verb\" and \"args\""));
  return request;
}

std::string request_line(const std::string& verb, const json& args) {
  return json_text(json{{"verb", verb}, {"args", args}}, -1) + "\n";
}

std::string reply_line(const Result<json>& result) {
  json reply = json::object();
  reply["ok"] = result.has_value();
  if (result)
    reply["result"] = *result;
  else
    reply["error"] = error_json(result.error());
  return json_text(reply, -1) + "\n";
}

Result<json> parse_reply(std::string_view line) {
  auto reply = parse_json(line, "reply of the daemon");
  if (!reply) return Unexpected(reply.error());
  const json* ok = reply->is_object() ? member(*reply, "ok") : nullptr;
  if (ok == nullptr || !ok->is_boolean())
    return fail(ErrorKind::internal, "reply of the daemon", "",
                "has no \"ok\"; is something else listening there?");
  if (ok->get<bool>()) {
    const json* result = member(*reply, "result");
    return result == nullptr ? json() : *result;
  }
  const json* error = member(*reply, "error");
  if (error == nullptr || !error->is_object())
    return fail(ErrorKind::internal, "reply of the daemon", "", "has neither result nor error");
  const json* kind = member(*error, "kind");
  const json* message = member(*error, "message");
  Error e;
  if (kind != nullptr && kind->is_string()) e.kind = kind_from_name(kind->get<std::string>());
  e.operation =
      message != nullptr && message->is_string() ? message->get<std::string>() : "failed without a message";
  return Unexpected(std::move(e));
}

json error_json(const Error& error) {
  return json{{"kind", kind_name(error.kind)}, {"message", error.text()}};
}

std::string json_text(const json& value, int indent) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

}  // namespace ublkd::api
