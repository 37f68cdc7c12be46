#include "cli/usage.h"

#include <algorithm>

#include "cli/table.h"
#include "config/option_table.h"

namespace ublkd::cli {

std::string target_list(TargetTypes types) {
  std::string out = "\nTargets (`ublkctl help -t TYPE` shows their options):\n";
  Table table;
  for (const TargetType* type : types)
    table.add({"  " + std::string(type->name), std::string(type->summary)});
  return out + table.text();
}

Result<std::string> target_help(std::string_view name, TargetTypes types) {
  const auto it =
      std::find_if(types.begin(), types.end(), [&](const TargetType* t) { return t->name == name; });
  if (it == types.end()) {
    std::string names;
    for (const TargetType* type : types) names += (names.empty() ? "" : ", ") + std::string(type->name);
    return fail(ErrorKind::invalid, "target", std::string(name), "no such type; there are " + names);
  }
  const TargetType& type = **it;
  std::string out = std::string(type.name) + ": " + std::string(type.summary) + "\n\n";
  if (type.options.empty()) return out + "It has no options.\n";
  out += "Options, in a config or as -O KEY=VALUE:\n";
  for (const OptionSpec& spec : type.options) {
    out += "\n  " + std::string(spec.name);
    if (spec.required) out += " (required)";
    if (!spec.default_text.empty()) out += " (default " + std::string(spec.default_text) + ")";
    out += "\n      " + std::string(spec.help) + "\n      Takes " + expected_words(spec) + "\n";
  }
  return out;
}

}  // namespace ublkd::cli
