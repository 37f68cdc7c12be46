#include "daemon/tags_status.h"

#include <cmath>

#include "base/clock.h"
#include "config/text.h"
#include "daemon/tag_pools.h"

namespace ublkd {

using nlohmann::json;

namespace {

constexpr std::size_t names_told_max = 20;

// Three decimals: what a reader can use.
double rounded(double value) { return std::round(value * 1000) / 1000; }

json histogram(const MemberCounts::Histogram& counts) {
  json out = json::array();
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (counts[i] != 0) out.push_back({{"up_to", std::uint64_t{1} << i}, {"count", counts[i]}});
  return out;
}

json member_status(const MemberCounts& m) {
  return {{"name", m.device},
          {"state", m.in_use ? "active" : "idle"},
          {"active", m.active},
          {"peak", m.peak},
          {"waiting", m.waiting},
          {"share", rounded(m.share)},
          {"weight", m.weight},
          {"taken", m.taken},
          {"put", m.put},
          {"asked", histogram(m.asked)},
          {"got", histogram(m.got)},
          {"borrowed", rounded(m.borrowed)},
          {"starved_ns", m.starved_ns},
          {"waited_ns", m.waited_ns},
          {"tag_time_ns", m.tag_time_ns},
          {"idle_changes", m.idle_changes},
          {"leftovers", m.leftovers},
          {"timeouts", m.timeouts}};
}

json set_status(const TagSet& set, const DeviceTable& table, const FairnessWatch& fairness) {
  const TagSetConfig& c = set.config();
  json pools = json::array();
  std::map<std::string, std::uint32_t> in_use;  // weight by device
  for (const Pool& pool : pools_of(set, table)) {
    const PoolCounts counts = read_pool(pool, c.share);
    for (const MemberCounts& m : counts.members)
      if (m.in_use) in_use[m.device] = m.weight;
    pools.push_back(pool_status(counts));
  }
  std::uint64_t weight = 0;
  for (const auto& [name, w] : in_use) weight += w;
  const auto jain = fairness.last_second(set);
  json out = share_status(set);
  out.erase("tag_set");
  out.update({{"name", c.name},
              {"private", c.is_private},
              {"depth", c.depth},
              {"depth_asked", set.depth_asked()},
              {"hw_queues", set.hw_queues().size()},
              {"devices_active", in_use.size()},
              {"weight_active", weight},
              {"jain", jain ? json(*jain) : json()},
              {"pools", pools}});
  return out;
}

std::string there_are(std::vector<std::string_view> names) {
  if (names.empty()) return "there are none";
  const std::size_t more = names.size() > names_told_max ? names.size() - names_told_max : 0;
  names.resize(names.size() - more);
  return "there are " + joined(names) + (more == 0 ? "" : " and " + std::to_string(more) + " more");
}

}  // namespace

json pool_status(const PoolCounts& pool) {
  json devices = json::array();
  for (const MemberCounts& m : pool.members) devices.push_back(member_status(m));
  return {{"queue", pool.queue ? json(*pool.queue) : json()},
          {"depth", pool.depth},
          {"active", pool.active},
          {"free", pool.free},
          {"waiting", pool.waiting},
          {"devices_active", pool.devices_in_use},
          {"weight_active", pool.weight_in_use},
          {"devices", devices}};
}

Result<json> tags_status(const DeviceTable& table, const FairnessWatch& fairness, const std::string& only) {
  json sets = json::array();
  for (const TagSet* set : tag_sets_of(table))
    if (only.empty() || set->config().name == only) sets.push_back(set_status(*set, table, fairness));
  if (sets.empty() && !only.empty()) return fail(ErrorKind::not_found, "tag set", only, tag_sets_there(table));
  return json{{"at_ns", monotonic_ns()}, {"tag_sets", sets}};
}

json share_status(const TagSet& set) {
  const TagSetConfig& c = set.config();
  return {{"tag_set", c.name},
          {"scope", tag_scope_name(c.scope)},
          {"policy", share_policy_name(c.share.policy)},
          {"grace_ns", c.share.grace_ns},
          {"idle_after_ns", c.share.idle_after_ns}};
}

Shares shares_in_force(const DeviceTable& table) {
  Shares out;
  for (const TagSet* set : tag_sets_of(table))
    for (const Pool& pool : pools_of(*set, table))
      for (const MemberCounts& m : read_pool(pool, set->config().share).members) out[m.device] += m.share;
  for (auto& [name, share] : out) share = rounded(share);
  return out;
}

std::string tag_sets_there(const DeviceTable& table) {
  std::vector<std::string_view> names;
  for (const TagSet* set : tag_sets_of(table)) names.push_back(set->config().name);
  return there_are(std::move(names));
}

std::string devices_there(const DeviceTable& table) {
  std::vector<std::string_view> names;
  for (const auto& e : table.entries()) names.push_back(e->name);
  return there_are(std::move(names));
}

}  // namespace ublkd
