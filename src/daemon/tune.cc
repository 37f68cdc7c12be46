#include "daemon/tune.h"

#include "config/parse.h"
#include "daemon/tags_status.h"

namespace ublkd {

using nlohmann::json;

namespace {

TagSet* find_set(DeviceTable& table, const std::string& name) {
  if (const auto it = table.shared_sets().find(name); it != table.shared_sets().end()) return it->second.get();
  for (const auto& e : table.entries())
    if (e->private_set != nullptr && e->private_set->config().name == name) return e->private_set.get();
  return nullptr;
}

Result<json> tune_set(DeviceTable& table, const std::string& name, const std::string& change) {
  TagSet* set = find_set(table, name);
  if (set == nullptr) return fail(ErrorKind::not_found, "tune tag set", name, tag_sets_there(table));
  const auto share = parse_share_change(change, set->config().share);
  if (!share) return Unexpected(share.error());
  set->configure(*share);
  return share_status(*set);
}

const char* state_of(const DeviceTable::Entry& entry) {
  if (entry.device != nullptr) return life_state_name(entry.device->state());
  return entry.error.empty() ? "being built" : "failed";
}

Result<json> tune_device(DeviceTable& table, const std::string& which, const std::string& change) {
  const DeviceTable::Entry* entry = table.find(which);
  if (entry == nullptr) return fail(ErrorKind::not_found, "tune device", which, devices_there(table));
  const auto weight = parse_weight_change(change);
  if (!weight) return Unexpected(weight.error());
  if (entry->device == nullptr || entry->device->state() != LifeState::live)
    return fail(ErrorKind::busy, "tune device", which, std::string("it is not live but ") + state_of(*entry));
  entry->device->set_weight(*weight);
  return json{{"device", entry->name}, {"weight", *weight}};
}

}  // namespace

Result<json> tune(DeviceTable& table, const json& args) {
  const auto bad = [](const std::string& what) { return fail(ErrorKind::invalid, "tune", "", what); };
  const bool set = args.contains("tag_set");
  if (set == args.contains("device")) return bad("args have tag_set or device: which is to be changed");
  const json& which = args[set ? "tag_set" : "device"];
  if (!which.is_string()) return bad("args name " + which.dump() + ", expected a text");
  const auto change = args.find("change");
  if (change == args.end()) return bad("args.change is missing: an object of keys as in the config");
  return set ? tune_set(table, which, change->dump()) : tune_device(table, which, change->dump());
}

}  // namespace ublkd
