// Every key of the config with a config to try a value of it in; made from the option tables.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "config/option_table.h"
#include "config_fixture.h"

namespace ublkd::config_test {

inline std::vector<std::string_view> kinds_of_values() {
  return {"null", "true", "1", "\"x\"", "[]", "{}"};
}

struct KeyCase {
  std::string path;                           // as messages name it
  nlohmann::json config;                      // a good one
  nlohmann::json_pointer<std::string> place;  // of the value in it
  std::vector<std::string> good;              // values that are accepted, as JSON

  [[nodiscard]] std::string with(std::string_view value) const {
    nlohmann::json changed = config;
    changed[place] = nlohmann::json::parse(value);
    return changed.dump();
  }
  [[nodiscard]] bool accepts(std::string_view value) const {
    return std::find(good.begin(), good.end(), value) != good.end();
  }
};

// Values that the table allows, by its entry's type.
inline std::vector<std::string> good_values(const OptionSpec& spec) {
  const auto in_range = [&](std::initializer_list<std::string> values) {
    std::vector<std::string> out;
    for (const std::string& v : values)
      if (is_allowed(spec, std::stoull(v))) out.push_back(v);
    return out;
  };
  switch (spec.type) {
    case OptionType::boolean: return {"true", "false"};
    case OptionType::integer:
    case OptionType::size:
    case OptionType::duration:
      return in_range({"0", "1", "2", "512", "4096", "1000000", "9223372036854775296"});
    case OptionType::text: return {"\"x\""};
    case OptionType::path: return {"\"/x\""};
    case OptionType::choice: return {"\"" + std::string(spec.choices.back()) + "\""};
    case OptionType::choices: return {"[\"" + std::string(spec.choices.front()) + "\"]"};
    case OptionType::integers: return {"[0]", "[1, 0]"};
    case OptionType::target:
      return {R"({"type": "null", "size": 512})", R"({"type": "file", "path": "/x", "create": "sparse"})"};
  }
  return {};
}

inline nlohmann::json smallest_target(const TargetType& type) {
  nlohmann::json target = {{"type", type.name}};
  for (const OptionSpec& spec : type.options)
    if (spec.required && !good_values(spec).empty())
      target[std::string(spec.name)] = nlohmann::json::parse(good_values(spec).front());
  return target;
}

inline std::vector<KeyCase> every_key() {
  using nlohmann::json;
  const json base = {{"devices", {{{"target", smallest_target(null_target_type())}}}}};
  std::vector<KeyCase> out = {
      {"$schema", base, json::json_pointer("/$schema"), {"\"x\""}},
      {"tag_sets", base, json::json_pointer("/tag_sets"), {"{}"}},
      {"devices", base, json::json_pointer("/devices"), {"[]"}},
      {"devices[0].target.type", base, json::json_pointer("/devices/0/target/type"), {"\"null\""}},
  };
  for (const OptionSpec& spec : tag_set_options()) {
    const std::string name(spec.name);
    json config = base;
    config["tag_sets"]["y"] = json::object();
    out.push_back(
        {"tag_sets.y." + name, config, json::json_pointer("/tag_sets/y/" + name), good_values(spec)});
  }
  for (const OptionSpec& spec : device_options()) {
    const std::string name(spec.name);
    json config = base;
    if (name == "tag_set") config["tag_sets"]["x"] = json::object();
    out.push_back(
        {"devices[0]." + name, config, json::json_pointer("/devices/0/" + name), good_values(spec)});
  }
  for (const TargetType* type : test_types()) {
    json config = base;
    config["devices"][0]["target"] = smallest_target(*type);
    for (const OptionSpec& spec : type->options)
      out.push_back({"devices[0].target." + std::string(spec.name), config,
                     json::json_pointer("/devices/0/target/" + std::string(spec.name)), good_values(spec)});
  }
  return out;
}

}  // namespace ublkd::config_test
