#include "cli/tag_words.h"

#include <array>
#include <charconv>

#include "cli/add_words.h"
#include "config/option_table.h"
#include "config/text.h"

namespace ublkd::cli {

namespace {

constexpr std::array change_flag_table{
    ChangeFlag{"--policy", "policy", "tag-set", "How the devices share the tags: none, equal or adaptive"},
    ChangeFlag{"--grace", "grace", "tag-set", "Policy adaptive: how long a share is kept after the last use"},
    ChangeFlag{"--idle-after", "idle_after", "tag-set", "Policy equal: how long a device counts after its last use"},
    ChangeFlag{"--weight", "weight", "device", "Share of the tags, relative to the other devices"},
};

constexpr double watch_s_min = 0.1;
constexpr double watch_s_max = 60;

Unexpected bad_tune(std::string advice) { return fail(ErrorKind::invalid, "tune", "", std::move(advice)); }

std::string flags_of(std::string_view kind) {
  std::string out;
  for (const ChangeFlag& flag : change_flag_table)
    if (flag.kind == kind) out += (out.empty() ? "" : ", ") + std::string(flag.spelling);
  return out;
}

}  // namespace

std::span<const ChangeFlag> change_flags() { return change_flag_table; }

Result<nlohmann::json> tune_args(const TuneWords& words, TargetTypes types) {
  if (words.kind != "tag-set" && words.kind != "device")
    return bad_tune("expected tag-set or device, found " + in_quotes(words.kind));
  nlohmann::json change = nlohmann::json::object();
  for (const auto& [flag, text] : words.changes) {
    if (flag->kind != words.kind)
      return bad_tune(std::string(flag->spelling) + " is for tune " + std::string(flag->kind) + " NAME");
    const auto table = words.kind == "device" ? device_options() : tag_set_options();
    auto value = option_value(table, flag->key, text, types);
    if (!value) return Unexpected(value.error());
    change[std::string(flag->key)] = std::move(*value);
  }
  if (change.empty()) return bad_tune("what is to be changed? " + words.kind + " has " + flags_of(words.kind));
  return nlohmann::json{{words.kind == "device" ? "device" : "tag_set", words.name}, {"change", std::move(change)}};
}

Result<std::chrono::milliseconds> watch_interval(const std::string& seconds) {
  double value = 0;
  const char* end = seconds.data() + seconds.size();
  const auto [stop, error] = std::from_chars(seconds.data(), end, value, std::chars_format::fixed);
  if (error != std::errc{} || stop != end || !(value >= watch_s_min && value <= watch_s_max))
    return fail(ErrorKind::invalid, "--watch", "", "expected seconds from 0.1 to 60, found " + in_quotes(seconds));
  return std::chrono::milliseconds(static_cast<std::int64_t>(value * 1000));
}

}  // namespace ublkd::cli
