#include "config/schema.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "config/option_reader.h"
#include "config/option_table.h"
#include "config/quantity.h"
#include "config/write.h"

namespace ublkd {

namespace {

using Json = nlohmann::ordered_json;

Json whole_number(const OptionSpec& spec) {
  if (!spec.choices.empty()) {
    Json values = Json::array();
    for (const std::string_view choice : spec.choices) values.push_back(parse_whole(choice).value_or(0));
    return {{"type", "integer"}, {"enum", std::move(values)}};
  }
  Json out = {{"type", "integer"}, {"minimum", spec.min}};
  if (spec.max != std::numeric_limits<std::uint64_t>::max()) out["maximum"] = spec.max;
  if (spec.multiple_of > 1) out["multipleOf"] = spec.multiple_of;
  return out;
}

Json quantity(const OptionSpec& spec, std::span<const QuantityUnit> units) {
  Json text = {{"type", "string"}, {"pattern", quantity_pattern(units)}};
  return {{"anyOf", Json::array({whole_number(spec), std::move(text)})}};
}

Json word_of(std::span<const std::string_view> words) {
  return {{"enum", std::vector<std::string>(words.begin(), words.end())}};
}

Json list_of(Json items) {
  return {{"type", "array"}, {"minItems", 1}, {"uniqueItems", true}, {"items", std::move(items)}};
}

Json value_schema(const OptionSpec& spec) {
  switch (spec.type) {
    case OptionType::boolean: return {{"type", "boolean"}};
    case OptionType::integer: return whole_number(spec);
    case OptionType::size: return quantity(spec, size_units());
    case OptionType::duration: return quantity(spec, duration_units());
    case OptionType::text: return {{"type", "string"}, {"minLength", 1}, {"maxLength", text_bytes_max}};
    case OptionType::path: return {{"type", "string"}, {"pattern", "^/"}, {"maxLength", text_bytes_max}};
    case OptionType::choice: return word_of(spec.choices);
    case OptionType::choices: return list_of(word_of(spec.choices));
    case OptionType::integers: return list_of(whole_number(spec));
    case OptionType::target: return {{"$ref", "#/definitions/target"}};
  }
  return {};
}

// The default as a reader would see it: a number for a size.
Json default_of(const OptionSpec& spec) {
  const auto value = parse_option_text(spec, spec.default_text, {});
  if (!value) return {};
  OptionValues one;
  one.set("value", *value);
  return to_json(one)["value"];
}

// A "$ref" hides its neighbours in draft-07, so description and default stand beside an allOf.
Json property(const OptionSpec& spec) {
  Json out = value_schema(spec);
  if (out.contains("$ref")) out = {{"allOf", Json::array({std::move(out)})}};
  if (!spec.help.empty()) out["description"] = std::string(spec.help);
  if (!spec.default_text.empty()) out["default"] = default_of(spec);
  return out;
}

Json object_of(std::span<const OptionSpec> specs) {
  Json properties = Json::object();
  Json required = Json::array();
  for (const OptionSpec& spec : specs) {
    properties[std::string(spec.name)] = property(spec);
    if (spec.required) required.push_back(std::string(spec.name));
  }
  return {{"type", "object"},
          {"additionalProperties", false},
          {"required", std::move(required)},
          {"properties", std::move(properties)}};
}

Json target_object(const TargetType& type) {
  Json out = object_of(type.options);
  out["description"] = std::string(type.summary);
  out["required"].push_back("type");
  out["properties"]["type"] = {{"const", std::string(type.name)}};
  return out;
}

Json device_object() {
  Json out = object_of(device_options());
  out["properties"]["name"]["pattern"] = name_pattern;
  out["not"] = {{"required", {"tag_set", "queues"}}};
  return out;
}

Json definitions(std::span<const TargetType* const> types) {
  Json out = {{"tag_set", object_of(tag_set_options())}, {"device", device_object()}};
  Json one_of = Json::array();
  for (const TargetType* type : types) {
    const std::string name = "target_" + std::string(type->name);
    out[name] = target_object(*type);
    one_of.push_back({{"$ref", "#/definitions/" + name}});
  }
  out["target"] = {{"oneOf", std::move(one_of)}};
  return out;
}

}  // namespace

std::string config_schema(std::span<const TargetType* const> types) {
  const Json schema = {
      {"$schema", "http://json-schema.org/draft-07/schema#"},
      {"title", "ublkd config"},
      {"type", "object"},
      {"additionalProperties", false},
      {"properties",
       {{"$schema", {{"type", "string"}}},
        {"tag_sets",
         {{"type", "object"},
          {"maxProperties", tag_sets_count_max},
          {"propertyNames", {{"pattern", name_pattern}}},
          {"additionalProperties", {{"$ref", "#/definitions/tag_set"}}}}},
        {"devices",
         {{"type", "array"},
          {"maxItems", devices_count_max},
          {"items", {{"$ref", "#/definitions/device"}}}}}}},
      {"definitions", definitions(types)},
  };
  return schema.dump(2) + "\n";
}

}  // namespace ublkd
