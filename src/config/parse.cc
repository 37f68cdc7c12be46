#include "config/parse.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "base/fd.h"
#include "config/config_check.h"
#include "config/json_text.h"
#include "config/option_reader.h"
#include "config/option_table.h"
#include "config/text.h"

namespace ublkd {

namespace {

std::uint32_t number32(const OptionValues& values, std::string_view name) {
  return static_cast<std::uint32_t>(values.number(name));  // every table keeps these below 2^32
}

// The value that word stands for, by its place among the names; the first when it is none (the table has checked it).
template <typename E, std::size_t N>
E choice_of(const std::string& word, const std::string_view (&names)[N]) {
  const auto at = std::find(std::begin(names), std::end(names), word);
  return at == std::end(names) ? E{} : static_cast<E>(at - std::begin(names));
}

// Takes over what values has.
void change_share(ShareParams& share, const OptionValues& values) {
  if (values.has("policy")) share.policy = choice_of<SharePolicy>(values.text("policy"), share_policy_names);
  if (values.has("grace")) share.grace_ns = values.number("grace");
  if (values.has("idle_after")) share.idle_after_ns = values.number("idle_after");
}

TagSetConfig tag_set_of(const std::string& name, const OptionValues& values) {
  TagSetConfig set;
  set.name = name;
  set.hw_queues = number32(values, "hw_queues");
  set.depth = number32(values, "depth");
  set.scope = values.text("scope") == tag_scope_name(TagScope::set) ? TagScope::set : TagScope::queue;
  change_share(set.share, values);
  for (const std::uint64_t cpu : values.numbers("cpus")) set.cpus.push_back(static_cast<std::uint32_t>(cpu));
  set.devices_max = number32(values, "devices_max");
  set.slots_total_max = number32(values, "slots_total_max");
  set.ring_entries = choice_of<RingEntries>(values.text("ring_entries"), ring_entries_names);
  return set;
}

DeviceConfig device_of(const OptionValues& values) {
  DeviceConfig device;
  device.name = values.text("name");
  if (values.has("id")) device.id = number32(values, "id");
  if (const auto target = values.target("target"); target != nullptr) device.target = *target;
  device.tag_set = values.text("tag_set");
  device.queues = number32(values, "queues");
  device.depth = number32(values, "depth");
  device.weight = number32(values, "weight");
  device.timeout_ns = values.number("timeout");
  device.logical_block_bytes = number32(values, "logical_block_size");
  device.io_bytes_max = values.number("max_io_size");
  device.buffer_mode = choice_of<BufferMode>(values.text("buffer_mode"), buffer_mode_names);
  device.read_only = values.flag("read_only");
  device.scheduler = values.text("scheduler");
  return device;
}

void read_tag_sets(const JsonNode& node, CheckedConfig& out, const ReadScope& scope) {
  if (node.kind != JsonKind::object || node.children.size() > tag_sets_count_max) {
    scope.problems.add(
        node.at, "tag_sets",
        fmt::format(
            "expected an object of at most {} tag sets by name, found {}", tag_sets_count_max,
            node.kind == JsonKind::object ? std::to_string(node.children.size()) : found_words(node)));
    return;
  }
  for (const JsonMember& member : node.children) {
    const std::string path = member_path("tag_sets", member.key);
    check_name(member.key, {member.key_at, path}, scope.problems);
    out.tag_set_places.push_back({member.key_at, path});
    out.config.tag_sets.push_back(
        tag_set_of(member.key, read_options(member.value, path, tag_set_options(), scope)));
  }
}

TextPlace place_of(const JsonNode& node, const std::string& path, std::string_view key) {
  const JsonMember* member = node.find(key);
  return {member == nullptr ? node.at : member->value.at, member_path(path, key)};
}

DeviceConfig read_device(const JsonNode& node, const std::string& path, const ReadScope& scope) {
  DeviceConfig device = device_of(read_options(node, path, device_options(), scope));
  if (!device.name.empty()) check_name(device.name, place_of(node, path, "name"), scope.problems);
  if (!device.tag_set.empty() && node.find("queues") != nullptr)
    scope.problems.add(place_of(node, path, "queues").at, member_path(path, "queues"),
                       fmt::format("expected no queues in a device of tag set {}, whose hw_queues count; "
                                   "remove queues or tag_set",
                                   in_quotes(device.tag_set)));
  return device;
}

void read_devices(const JsonNode& node, CheckedConfig& out, const ReadScope& scope) {
  if (node.kind != JsonKind::list || node.children.size() > devices_count_max) {
    scope.problems.add(
        node.at, "devices",
        fmt::format("expected a list of at most {} devices, found {}", devices_count_max,
                    node.kind == JsonKind::list ? std::to_string(node.children.size()) : found_words(node)));
    return;
  }
  for (std::size_t i = 0; i < node.children.size() && !scope.problems.full(); ++i) {
    const JsonNode& entry = node.children[i].value;
    const std::string path = item_path("devices", i);
    out.config.devices.push_back(read_device(entry, path, scope));
    out.device_places.push_back(
        {place_of(entry, path, "name"), place_of(entry, path, "id"), place_of(entry, path, "tag_set")});
  }
}

void read_top(const JsonNode& root, CheckedConfig& out, const ReadScope& scope) {
  if (root.kind != JsonKind::object) {
    scope.problems.add(root.at, "", "expected an object in {}, found " + found_words(root));
    return;
  }
  for (const JsonMember& member : root.children) {
    if (scope.problems.full()) return;
    refuse_unknown_key(member, "", top_level_keys(), scope.problems);
  }
  if (const JsonMember* schema = root.find("$schema");
      schema != nullptr && schema->value.kind != JsonKind::text)
    scope.problems.add(schema->value.at, "$schema",
                       "expected the schema's name as a text, found " + found_words(schema->value));
  if (const JsonMember* sets = root.find("tag_sets"); sets != nullptr) read_tag_sets(sets->value, out, scope);
  if (const JsonMember* devices = root.find("devices"); devices != nullptr)
    read_devices(devices->value, out, scope);
}

// The table's options of these names, all optional and without a default: a change is what is given.
std::vector<OptionSpec> changes_of(std::span<const OptionSpec> table, std::span<const std::string_view> names) {
  std::vector<OptionSpec> out;
  for (OptionSpec spec : table) {
    if (std::ranges::find(names, spec.name) == names.end()) continue;
    spec.default_text = {};
    spec.required = false;
    out.push_back(spec);
  }
  return out;
}

Result<OptionValues> parse_changes(std::string_view text, std::span<const OptionSpec> table,
                                   std::span<const std::string_view> names) {
  Problems problems("");
  const auto tree = parse_json_text(text, problems);
  if (!tree) return problems.error();
  const auto specs = changes_of(table, names);
  OptionValues values = read_options(*tree, "", specs, {{}, problems});
  if (problems.empty() && values.all().empty())
    problems.add({}, "", fmt::format("expected at least one of: {}", fmt::join(names, ", ")));
  if (!problems.empty()) return problems.error();
  return values;
}

// Whole input of at most json_bytes_max bytes and one more, which the parser then refuses by number.
Result<std::string> read_input(int fd, const std::string& name) {
  std::string text;
  char chunk[16384];
  while (text.size() <= json_bytes_max) {
    const ssize_t n = ::read(fd, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(errno, "read", name);
    if (n == 0) break;
    text.append(chunk, static_cast<std::size_t>(n));
  }
  return text;
}

}  // namespace

Result<Config> parse_config(std::string_view text, std::string origin, TargetTypes types) {
  Problems problems(origin);
  const auto tree = parse_json_text(text, problems);
  if (!tree) return problems.error();
  CheckedConfig out;
  out.config.origin = std::move(origin);
  read_top(*tree, out, {types, problems});
  // Numbers and names that were refused would only give follow-up problems here.
  if (problems.empty()) check_config(out, problems);
  if (!problems.empty()) return problems.error();
  return std::move(out.config);
}

Result<Config> load_config(const std::string& path, TargetTypes types) {
  if (path == "-") {
    const auto text = read_input(STDIN_FILENO, "standard input");
    if (!text) return Unexpected(text.error());
    return parse_config(*text, "standard input", types);
  }
  const auto fd = open_file(path, O_RDONLY);
  if (!fd) return Unexpected(fd.error());
  const auto text = read_input(fd->get(), path);
  if (!text) return Unexpected(text.error());
  return parse_config(*text, path, types);
}

Result<DeviceConfig> parse_device(std::string_view text, std::string origin, TargetTypes types) {
  Problems problems(std::move(origin));
  const auto tree = parse_json_text(text, problems);
  if (!tree) return problems.error();
  DeviceConfig device = read_device(*tree, "", {types, problems});
  if (!problems.empty()) return problems.error();
  return device;
}

Result<ShareParams> parse_share_change(std::string_view text, const ShareParams& share) {
  static constexpr std::string_view names[] = {"policy", "grace", "idle_after"};
  const auto values = parse_changes(text, tag_set_options(), names);
  if (!values) return Unexpected(values.error());
  ShareParams changed = share;
  change_share(changed, *values);
  return changed;
}

Result<std::uint32_t> parse_weight_change(std::string_view text) {
  static constexpr std::string_view names[] = {"weight"};
  const auto values = parse_changes(text, device_options(), names);
  if (!values) return Unexpected(values.error());
  return number32(*values, "weight");
}

}  // namespace ublkd
