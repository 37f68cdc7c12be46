// Text of the daemon's answers to `tags` and `tune`. As render.h: what is missing is shown as "-".
//
// Thread rule: pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace ublkd::cli {

// A head and a table for each tag set. before: an earlier answer, for rates since then; null: without rates.
[[nodiscard]] std::string tags_text(const nlohmann::json& answer, const nlohmann::json& before);

// What is in force after a change.
[[nodiscard]] std::string tune_text(const nlohmann::json& answer);

}  // namespace ublkd::cli
