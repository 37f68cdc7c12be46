// Members of the daemon's answers as cells of a table; one that is missing is "-". Pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace ublkd::cli {

// Null when it is missing or object is none.
[[nodiscard]] const nlohmann::json& member(const nlohmann::json& object, const char* key);

// A value as one cell: texts without quotes, lists with commas.
[[nodiscard]] std::string cell(const nlohmann::json& value);
[[nodiscard]] std::string cell(const nlohmann::json& object, const char* key);

[[nodiscard]] std::optional<double> number_of(const nlohmann::json& object, const char* key);

}  // namespace ublkd::cli
