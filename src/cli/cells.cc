#include "cli/cells.h"

#include "api/wire.h"

namespace ublkd::cli {

using nlohmann::json;

const json& member(const json& object, const char* key) {
  static const json none;
  if (!object.is_object()) return none;
  const auto it = object.find(key);
  return it == object.end() ? none : *it;
}

std::string cell(const json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_array()) {
    std::string out;
    for (const json& item : value) out += (out.empty() ? "" : ",") + cell(item);
    return out.empty() ? "-" : out;
  }
  return api::json_text(value, -1);
}

std::string cell(const json& object, const char* key) {
  return cell(member(object, key));
}

std::optional<double> number_of(const json& object, const char* key) {
  const json& value = member(object, key);
  if (!value.is_number()) return std::nullopt;
  return value.get<double>();
}

}  // namespace ublkd::cli
