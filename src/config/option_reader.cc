#include "config/option_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "config/option_table.h"
#include "config/quantity.h"
#include "config/text.h"

namespace ublkd {

namespace {

using Value = OptionValues::Value;

// One value being read: where it stands and what it should be.
struct Entry {
  const JsonNode& node;
  const std::string& path;
  const OptionSpec& spec;
  const ReadScope& scope;

  // Always nothing, so that a reader can end with it.
  std::nullopt_t refuse(std::string_view advice = {}) const {
    scope.problems.add(node.at, path,
                       fmt::format("expected {}, found {}{}{}", expected_words(spec), found_words(node),
                                   advice.empty() ? "" : "; ", advice));
    return std::nullopt;
  }
};

bool is_word(const JsonNode& node) {
  return node.kind == JsonKind::text || node.kind == JsonKind::argument;
}

std::string_view number_advice(std::string_view raw) {
  if (raw.find_first_of(".eE") != std::string_view::npos)
    return "it is not written as a whole number, write digits only";
  if (raw.starts_with('-')) return "negative numbers are not accepted";
  return "the number is 2^64 or more";
}

std::string_view kind_advice(const JsonNode& node) {
  switch (node.kind) {
    case JsonKind::null: return "leave the key out instead";
    case JsonKind::number: return number_advice(node.text);
    default: return {};
  }
}

std::optional<Value> read_boolean(const Entry& e) {
  if (e.node.kind == JsonKind::boolean) return e.node.flag;
  if (e.node.kind == JsonKind::argument && (e.node.text == "true" || e.node.text == "false"))
    return e.node.text == "true";
  if (is_word(e.node) && (e.node.text == "true" || e.node.text == "false"))
    return e.refuse("write it without quotes");
  return e.refuse(kind_advice(e.node));
}

Result<std::uint64_t> parse_with_unit(OptionType type, std::string_view text) {
  return type == OptionType::duration ? parse_duration_ns(text) : parse_size_bytes(text);
}

// The number of a node by the rules of its option's type.
std::optional<std::uint64_t> number_of(const Entry& e) {
  const JsonNode& node = e.node;
  if (node.kind == JsonKind::whole) return node.number;
  if (!is_word(node)) return e.refuse(kind_advice(node));
  const bool plain = node.kind == JsonKind::argument && parse_whole(node.text);
  const bool has_units = e.spec.type == OptionType::size || e.spec.type == OptionType::duration;
  if (!has_units && node.kind == JsonKind::text)
    return e.refuse(parse_whole(node.text) ? "write it without quotes" : "");
  const auto value = plain || !has_units ? parse_whole(node.text) : parse_with_unit(e.spec.type, node.text);
  if (value) return *value;
  e.scope.problems.add(node.at, e.path, value.error().advice);
  return std::nullopt;
}

std::optional<Value> read_number(const Entry& e) {
  const auto value = number_of(e);
  if (!value) return std::nullopt;
  if (is_allowed(e.spec, *value)) return *value;
  return e.refuse(e.node.kind == JsonKind::whole ? "" : fmt::format("that is {}", *value));
}

std::optional<Value> read_text(const Entry& e) {
  const JsonNode& node = e.node;
  if (!is_word(node)) return e.refuse(kind_advice(node));
  if (node.text.empty() || node.text.size() > text_bytes_max) return e.refuse();
  if (node.text.find('\0') != std::string::npos) return e.refuse("a zero byte is not accepted");
  if (!is_utf8(node.text)) return e.refuse("it is not valid UTF-8");
  if (e.spec.type == OptionType::path && node.text[0] != '/') return e.refuse("write it from / on");
  return node.text;
}

std::optional<Value> read_choice(const Entry& e) {
  if (!is_word(e.node)) return e.refuse(kind_advice(e.node));
  if (std::ranges::find(e.spec.choices, e.node.text) != e.spec.choices.end()) return e.node.text;
  const std::string_view near = nearest_word(e.node.text, e.spec.choices);
  return e.refuse(near.empty() ? "" : fmt::format("did you mean {}?", in_quotes(near)));
}

std::vector<JsonNode> split_words(const JsonNode& argument) {
  std::vector<JsonNode> words;
  for (std::string_view rest = argument.text;;) {
    const std::size_t comma = rest.find(',');
    words.push_back(
        {.kind = JsonKind::argument, .at = argument.at, .text = std::string(rest.substr(0, comma))});
    if (comma == std::string_view::npos) return words;
    rest.remove_prefix(comma + 1);
  }
}

// The items of a list; a word of a command line is split at its commas.
std::optional<std::vector<JsonNode>> items_of(const Entry& e) {
  if (e.node.kind == JsonKind::argument) return split_words(e.node);
  if (e.node.kind != JsonKind::list)
    return e.refuse(e.node.kind == JsonKind::null ? kind_advice(e.node) : "write it as a list in []");
  if (e.node.children.empty()) return e.refuse("the list is empty; leave the key out instead");
  std::vector<JsonNode> items;
  for (const JsonMember& child : e.node.children) items.push_back(child.value);
  return items;
}

// A list whose items are each read as item_type; T is what an item's value holds.
template <typename T>
std::optional<Value> read_list(const Entry& e, OptionType item_type) {
  const auto items = items_of(e);
  if (!items) return std::nullopt;
  OptionSpec item_spec = e.spec;
  item_spec.type = item_type;
  std::vector<T> values;
  std::set<T> seen;
  for (std::size_t i = 0; i < items->size(); ++i) {
    const std::string path = item_path(e.path, i);
    const Entry item{(*items)[i], path, item_spec, e.scope};
    const auto value = item_type == OptionType::choice ? read_choice(item) : read_number(item);
    if (!value) return std::nullopt;
    values.push_back(std::get<T>(*value));
    if (!seen.insert(values.back()).second) return item.refuse("it stands in the list twice");
  }
  return values;
}

std::optional<Value> read_target_option(const Entry& e) {
  if (e.node.kind != JsonKind::argument) {
    auto target = read_target(e.node, e.path, e.scope);
    if (target == nullptr) return std::nullopt;
    return target;
  }
  if (!e.node.text.starts_with('{'))
    return e.refuse(fmt::format("write {}.type=... and {}.KEY=...", e.spec.name, e.spec.name));
  Problems inner("");
  const auto tree = parse_json_text(e.node.text, inner);
  if (!inner.empty()) return e.refuse(inner.error().value().text());
  auto target = read_target(*tree, e.path, e.scope);
  if (target == nullptr) return std::nullopt;
  return target;
}

std::optional<Value> read_value(const Entry& e) {
  switch (e.spec.type) {
    case OptionType::boolean: return read_boolean(e);
    case OptionType::integer:
    case OptionType::size:
    case OptionType::duration: return read_number(e);
    case OptionType::text:
    case OptionType::path: return read_text(e);
    case OptionType::choice: return read_choice(e);
    case OptionType::choices: return read_list<std::string>(e, OptionType::choice);
    case OptionType::integers: return read_list<std::uint64_t>(e, OptionType::integer);
    case OptionType::target: return read_target_option(e);
  }
  return std::nullopt;
}

void refuse_unknown_keys(const JsonNode& node, const std::string& path, std::span<const OptionSpec> specs,
                         const ReadScope& scope, std::string_view also_known) {
  std::vector<std::string_view> known;
  if (!also_known.empty()) known.push_back(also_known);
  for (const OptionSpec& spec : specs) known.push_back(spec.name);
  for (const JsonMember& member : node.children) {
    if (scope.problems.full()) return;  // looking for the nearest key takes time
    refuse_unknown_key(member, path, known, scope.problems);
  }
}

// Hangs "target.size" = value into object: one object per dot. False: the key is empty or taken.
bool hang_word(JsonNode& object, std::string_view key, std::string_view value) {
  JsonNode* parent = &object;
  for (std::size_t depth = 0; depth < json_depth_max; ++depth) {
    const std::size_t dot = key.find('.');
    const std::string_view name = key.substr(0, dot);
    const JsonMember* found = parent->find(name);
    if (name.empty()) return false;
    if (dot == std::string_view::npos) {
      if (found != nullptr) return false;
      parent->children.push_back(
          {std::string(name), {}, {.kind = JsonKind::argument, .text = std::string(value)}});
      return true;
    }
    if (found == nullptr) parent->children.push_back({std::string(name), {}, {.kind = JsonKind::object}});
    JsonNode& child = found == nullptr
                          ? parent->children.back().value
                          : parent->children[static_cast<std::size_t>(found - parent->children.data())].value;
    if (child.kind != JsonKind::object) return false;
    parent = &child;
    key.remove_prefix(dot + 1);
  }
  return false;
}

}  // namespace

void refuse_unknown_key(const JsonMember& member, const std::string& path,
                        std::span<const std::string_view> known, Problems& problems) {
  if (std::ranges::find(known, member.key) != known.end()) return;
  const std::string_view near = nearest_word(member.key, known);
  problems.add(member.key_at, member_path(path, member.key),
               fmt::format("expected a known key, found {}; {}", in_quotes(member.key),
                           near.empty() ? "known are " + joined(known)
                                        : fmt::format("did you mean {}?", in_quotes(near))));
}

OptionValues read_options(const JsonNode& node, const std::string& path, std::span<const OptionSpec> specs,
                          const ReadScope& scope, std::string_view also_known) {
  OptionValues values;
  if (node.kind != JsonKind::object) {
    scope.problems.add(node.at, path, "expected an object in {}, found " + found_words(node));
    return values;
  }
  refuse_unknown_keys(node, path, specs, scope, also_known);
  for (const OptionSpec& spec : specs) {
    const std::string key_path = member_path(path, spec.name);
    if (const JsonMember* member = node.find(spec.name); member != nullptr) {
      if (auto value = read_value({member->value, key_path, spec, scope}))
        values.set(std::string(spec.name), std::move(*value));
    } else if (spec.required) {
      scope.problems.add(node.at, key_path,
                         fmt::format("expected {}, found no such key; it is required", expected_words(spec)));
    } else if (!spec.default_text.empty()) {
      const JsonNode given{.kind = JsonKind::argument, .at = node.at, .text = std::string(spec.default_text)};
      if (auto value = read_value({given, key_path, spec, scope}))
        values.set(std::string(spec.name), std::move(*value));
    }
  }
  return values;
}

std::shared_ptr<const TargetSpec> read_target(const JsonNode& node, const std::string& path,
                                              const ReadScope& scope) {
  std::vector<std::string_view> names;
  for (const TargetType* type : scope.types) names.push_back(type->name);
  if (node.kind != JsonKind::object) {
    const OptionSpec spec{.type = OptionType::target};
    const Entry entry{node, path, spec, scope};
    static_cast<void>(entry.refuse(kind_advice(node)));
    return nullptr;
  }
  const std::string type_path = member_path(path, "type");
  const OptionSpec type_spec{.name = "type", .type = OptionType::choice, .choices = names};
  const JsonMember* member = node.find("type");
  if (member == nullptr) {
    scope.problems.add(
        node.at, type_path,
        fmt::format("expected {}, found no such key; it is required", expected_words(type_spec)));
    return nullptr;
  }
  const auto name = read_choice({member->value, type_path, type_spec, scope});
  if (!name) return nullptr;
  const auto& type_name = std::get<std::string>(*name);
  const auto type = std::ranges::find(scope.types, type_name, [](const TargetType* t) { return t->name; });
  return std::make_shared<const TargetSpec>(
      TargetSpec{type_name, read_options(node, path, (*type)->options, scope, "type")});
}

Result<OptionValues::Value> parse_option_text(const OptionSpec& spec, std::string_view text,
                                              std::span<const TargetType* const> types) {
  Problems problems("");
  const JsonNode node{.kind = JsonKind::argument, .text = std::string(text)};
  const std::string path(spec.name);
  auto value = read_value({node, path, spec, {types, problems}});
  if (!problems.empty()) return problems.error();
  return std::move(*value);
}

Result<TargetSpec> parse_target_words(std::string_view type, std::span<const std::string> words,
                                      std::span<const TargetType* const> types) {
  Problems problems("");
  JsonNode object{.kind = JsonKind::object};
  object.children.push_back({"type", {}, {.kind = JsonKind::argument, .text = std::string(type)}});
  for (const std::string_view word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos ||
        !hang_word(object, word.substr(0, equals), word.substr(equals + 1)))
      problems.add({}, in_quotes(word),
                   "expected key=value, each key once; a wrapper's inner keys as target.key=value");
  }
  const auto target = read_target(object, "", {types, problems});
  if (!problems.empty()) return problems.error();
  return *target;
}

}  // namespace ublkd
