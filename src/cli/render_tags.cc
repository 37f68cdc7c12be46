#include "cli/render_tags.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "cli/cells.h"
#include "cli/table.h"

namespace ublkd::cli {

namespace {

using nlohmann::json;

std::string duration_cell(const json& object, const char* key) {
  const auto ns = number_of(object, key);
  return ns ? human_duration(*ns) : "-";
}

std::string decimal_cell(const json& object, const char* key) {
  const auto value = number_of(object, key);
  if (!value) return "-";
  return *value == std::floor(*value) ? fmt::format("{:.0f}", *value) : fmt::format("{:.1f}", *value);
}

std::string queue_cell(const json& pool) {
  return pool.is_object() && pool.contains("queue") && pool["queue"].is_null() ? "all" : cell(pool, "queue");
}

// The size that half of the batches do not exceed.
std::string median(const json& histogram) {
  double total = 0, seen = 0;
  for (const json& h : histogram) total += number_of(h, "count").value_or(0);
  for (const json& h : histogram) {
    seen += number_of(h, "count").value_or(0);
    if (seen > 0 && 2 * seen >= total) return cell(h, "up_to");
  }
  return "-";
}

std::string batch_cell(const json& device) {
  const std::string asked = median(member(device, "asked"));
  return asked == "-" ? "-" : asked + "/" + median(member(device, "got"));
}

// Tags taken a second, by set, queue and device.
class Rates {
 public:
  Rates(const json& answer, const json& before) : wanted(before.is_object()) {
    if (!wanted) return;
    seconds_ = (number_of(answer, "at_ns").value_or(0) - number_of(before, "at_ns").value_or(0)) / 1e9;
    for (const json& set : member(before, "tag_sets"))
      for (const json& pool : member(set, "pools"))
        for (const json& device : member(pool, "devices"))
          if (const auto taken = number_of(device, "taken")) taken_[key(set, pool, device)] = *taken;
  }

  [[nodiscard]] std::string cell_of(const json& set, const json& pool, const json& device) const {
    const auto it = taken_.find(key(set, pool, device));
    const auto taken = number_of(device, "taken");
    if (it == taken_.end() || !taken || *taken < it->second || seconds_ <= 0) return "-";
    return fmt::format("{:.0f}", (*taken - it->second) / seconds_);
  }

  const bool wanted;

 private:
  static std::string key(const json& set, const json& pool, const json& device) {
    return cell(set, "name") + "/" + queue_cell(pool) + "/" + cell(device, "name");
  }
  double seconds_ = 0;
  std::map<std::string, double> taken_;
};

std::string tags_words(const json& set) {
  const bool one_pool = cell(set, "scope") == "set";
  std::string out = cell(set, "depth") + " tags";
  if (cell(set, "depth_asked") != cell(set, "depth")) out += " (" + cell(set, "depth_asked") + " asked)";
  if (cell(set, "hw_queues") == "1") return out;
  return out + (one_pool ? " for " : " on each of ") + cell(set, "hw_queues") + " queues";
}

std::string head(const json& set) {
  double free = 0, waiting = 0;
  for (const json& pool : member(set, "pools")) {
    free += number_of(pool, "free").value_or(0);
    waiting += number_of(pool, "waiting").value_or(0);
  }
  const auto jain = number_of(set, "jain");
  return fmt::format("tag set {}: policy {}, scope {}, {}, {:.0f} free, {:.0f} waiting, {} device(s) active, Jain {}\n",
                     cell(set, "name"), cell(set, "policy"), cell(set, "scope"), tags_words(set), free, waiting,
                     cell(set, "devices_active"), jain ? fmt::format("{:.3f}", *jain) : "n/a");
}

std::string set_text(const json& set, const Rates& rates) {
  Table table;
  std::vector<std::string> names{"DEVICE", "QUEUE",  "ACTIVE",   "PEAK",    "WAIT", "SHARE",
                                 "WEIGHT", "TAKEN",  "BORROWED", "STARVED", "IDLE", "BATCH"};
  constexpr int after_taken = 8;
  if (rates.wanted) names.insert(names.begin() + after_taken, "TAKEN/s");
  table.add(names);
  bool any = false;
  for (const json& pool : member(set, "pools"))
    for (const json& d : member(pool, "devices")) {
      any = true;
      std::vector<std::string> row{cell(d, "name"),         queue_cell(pool),        cell(d, "active"),
                                   cell(d, "peak"),         cell(d, "waiting"),      decimal_cell(d, "share"),
                                   cell(d, "weight"),       cell(d, "taken"),        decimal_cell(d, "borrowed"),
                                   duration_cell(d, "starved_ns"), cell(d, "idle_changes"), batch_cell(d)};
      if (rates.wanted) row.insert(row.begin() + after_taken, rates.cell_of(set, pool, d));
      table.add(row);
    }
  return head(set) + (any ? table.text() : "");
}

}  // namespace

std::string tags_text(const json& answer, const json& before) {
  const Rates rates(answer, before);
  std::string out;
  for (const json& set : member(answer, "tag_sets")) out += (out.empty() ? "" : "\n") + set_text(set, rates);
  return out;
}

std::string tune_text(const json& answer) {
  if (answer.is_object() && answer.contains("device"))
    return fmt::format("device {}: weight {}\n", cell(answer, "device"), cell(answer, "weight"));
  return fmt::format("tag set {}: policy {}, grace {}, idle_after {}\n", cell(answer, "tag_set"),
                     cell(answer, "policy"), duration_cell(answer, "grace_ns"), duration_cell(answer, "idle_after_ns"));
}

}  // namespace ublkd::cli
