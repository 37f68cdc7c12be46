#include "cli/render.h"

#include <fmt/format.h>

#include <array>

#include "abi/features.h"
#include "cli/cells.h"
#include "cli/table.h"

namespace ublkd::cli {

namespace {

using nlohmann::json;

std::string bytes_cell(const json& object, const char* key) {
  const json& value = member(object, key);
  return value.is_number_unsigned() ? human_bytes(value.get<std::uint64_t>()) : cell(value);
}

// "1 GiB (1073741824 bytes)"
std::string exact_bytes(const json& object, const char* key) {
  const json& value = member(object, key);
  if (!value.is_number_unsigned()) return cell(value);
  return fmt::format("{} ({} bytes)", human_bytes(value.get<std::uint64_t>()), value.get<std::uint64_t>());
}

std::string line(std::string_view name, const std::string& value) {
  return fmt::format("  {:<16}{}\n", name, value);
}

std::string queues_cell(const json& device) {
  const std::string queues = cell(device, "queues");
  const std::string asked = cell(device, "queues_asked");
  return asked == "-" || asked == queues ? queues : queues + " of " + asked + " asked";
}

std::string pairs_text(const json& object) {
  std::string out;
  if (!object.is_object()) return "-";
  for (const auto& item : object.items())
    out += (out.empty() ? "" : " ") + item.key() + "=" + cell(item.value());
  return out.empty() ? "-" : out;
}

std::string ops_text(const json& ops) {
  Table table;
  table.add({"  operation", "count", "bytes", "errors"});
  constexpr std::array names{"read", "write", "flush", "discard", "write_zeroes"};
  for (const char* name : names) {
    const json& op = member(ops, name);
    if (!op.is_object()) continue;
    table.add({std::string("  ") + name, cell(op, "count"), cell(op, "bytes"), cell(op, "errors")});
  }
  return ops.is_object() ? table.text() : "";
}

std::string tag_set_text(const json& set) {
  std::string out =
      fmt::format("tag set {}: {} hardware queue(s) x {} tags, policy {}, devices {}\n", cell(set, "name"),
                  cell(set, "hw_queues"), cell(set, "depth"), cell(set, "policy"), cell(set, "devices"));
  Table table;
  table.add({"  queue", "tid", "cpus", "active", "free", "waiting", "turns", "cq_overflows", "ring"});
  const json& queues = member(set, "queues");
  if (!queues.is_array() || queues.empty()) return out;
  for (const json& q : queues)
    table.add({"  " + cell(q, "queue"), cell(q, "tid"), cell(q, "cpus"), cell(q, "active"), cell(q, "free"),
               cell(q, "waiting"), cell(q, "turns"), cell(q, "cq_overflows"), cell(q, "ring")});
  return out + table.text();
}

}  // namespace

std::string device_table(const json& list) {
  const json& devices = member(list, "devices");
  if (!devices.is_array() || devices.empty()) return "";
  Table table;
  table.add(
      {"ID", "NAME", "PATH", "STATE", "TARGET", "SIZE", "QUEUES", "DEPTH", "TAG SET", "ACTIVE", "WAITING"});
  for (const json& d : devices)
    table.add({cell(d, "id"), cell(d, "name"), cell(d, "path"), cell(d, "state"), cell(d, "target"),
               bytes_cell(d, "size_bytes"), cell(d, "queues"), cell(d, "depth"), cell(d, "tag_set"),
               cell(d, "active"), cell(d, "waiting")});
  return table.text();
}

std::string device_details(const json& d) {
  std::string out = fmt::format("device {}: {}, {}\n", cell(d, "id"), cell(d, "name"), cell(d, "state"));
  out += line("path", cell(d, "path"));
  out += line("target", cell(d, "target") + " " + pairs_text(member(d, "target_options")));
  out += line("facts", pairs_text(member(d, "facts")));
  out += line("size", exact_bytes(d, "size_bytes"));
  out += line("blocks", fmt::format("{} logical, {} physical", cell(d, "logical_block_bytes"),
                                    cell(d, "physical_block_bytes")));
  out += line("largest I/O", exact_bytes(d, "io_bytes_max"));
  out += line("read-only", cell(d, "read_only"));
  out += line("queues x depth", queues_cell(d) + " x " + cell(d, "depth"));
  out += line("tag set", fmt::format("{}, weight {}, share {}", cell(d, "tag_set"), cell(d, "weight"),
                                     cell(d, "share")));
  out += line("tags",
              fmt::format("{} active, {} waiting, {} peak, {} taken, {} put", cell(d, "active"),
                          cell(d, "waiting"), cell(d, "peak"), cell(d, "tags_taken"), cell(d, "tags_put")));
  out += line("scheduler", cell(d, "scheduler"));
  const std::string why = cell(d, "buffer_mode_why");
  out += line("buffers", cell(d, "buffer_mode") + (why.empty() ? "" : " (" + why + ")") + ", " +
                             exact_bytes(d, "memory_bytes"));
  out += line("flags", cell(d, "flags"));
  if (cell(d, "flags_dropped") != "-") out += line("flags dropped", cell(d, "flags_dropped"));
  out += line("daemon pid", cell(d, "daemon_pid"));
  return out + ops_text(member(d, "ops"));
}

std::string list_details(const json& list) {
  const json& daemon = member(list, "daemon");
  std::string out = fmt::format("ublkd {} pid {}, config {}, run directory {}\n", cell(daemon, "version"),
                                cell(daemon, "pid"), cell(daemon, "config"), cell(daemon, "run_dir"));
  for (const json& set : member(list, "tag_sets")) out += "\n" + tag_set_text(set);
  for (const json& device : member(list, "devices")) out += "\n" + device_details(device);
  return out;
}

std::string features_text(const json& features) {
  std::string out =
      fmt::format("kernel {}, ublk features {}\n", cell(features, "kernel"), cell(features, "mask"));
  Table table;
  table.add({"BIT", "FEATURE", "KERNEL", "USED", "SINCE", "MEANING"});
  const auto known = abi::feature_table();
  for (const json& f : member(features, "features")) {
    const json& bit = member(f, "bit");
    const std::size_t i = bit.is_number_unsigned() ? bit.get<std::size_t>() : known.size();
    const bool is_known = i < known.size();
    table.add({cell(f, "bit"), cell(f, "name"), cell(f, "kernel"), cell(f, "used"),
               is_known ? std::string(known[i].since) : "-", is_known ? std::string(known[i].meaning) : "-"});
  }
  return out + table.text();
}

}  // namespace ublkd::cli
