#include "daemon/service.h"

#include <unistd.h>

#include "config/parse.h"
#include "daemon/status.h"
#include "daemon/tags_status.h"
#include "daemon/tune.h"

namespace ublkd {

using nlohmann::json;

namespace {

Unexpected bad_args(const std::string& verb, const std::string& what) {
  return fail(ErrorKind::invalid, verb, "", what);
}

}  // namespace

boost::asio::awaitable<Result<json>> DaemonService::call(std::string verb, json args) {
  if (verb == "ping") co_return daemon_status();
  if (verb == "list") co_return list(args);
  if (verb == "features") co_return features_status(env_.features_kernel, env_.features);
  if (verb == "tags") co_return tags(args);
  if (verb == "tune") co_return tune(table_, args);
  if (verb == "add") co_return co_await add(std::move(args));
  if (verb == "del") co_return co_await del(std::move(args));
  co_return fail(ErrorKind::unsupported, verb, "", "no such verb; known: ping, add, del, list, tags, tune, features");
}

json DaemonService::daemon_status() const {
  return {{"pid", ::getpid()},
          {"version", version},
          {"config", options_.config_path},
          {"run_dir", options_.run_dir}};
}

Task<Result<json>> DaemonService::add(json args) {
  const auto device = args.find("device");
  if (device == args.end()) co_return bad_args("add", "args.device is missing: an object as in the config");
  auto config = parse_device(device->dump(), "", env_.types);
  if (!config) co_return Unexpected(config.error());
  auto added = co_await table_.add(std::move(*config));
  if (!added) co_return Unexpected(added.error());
  const auto* entry = table_.find((*added)->config().name);
  if (entry == nullptr) co_return fail(ErrorKind::not_found, "add", "", "the device was deleted at once");
  co_return device_status(*entry, shares_in_force(table_));
}

// The devices that `del` names; error when args are not of its form.
Result<std::vector<std::string>> DaemonService::devices_to_delete(const json& args) const {
  std::vector<std::string> which;
  if (args.value("all", json(false)) == json(true)) {
    for (const auto& e : table_.entries()) which.push_back(e->name);
    return which;
  }
  const auto devices = args.find("devices");
  if (devices == args.end() || !devices->is_array())
    return bad_args("del", "args.devices (a list of names, numbers or paths) or args.all is missing");
  for (const json& d : *devices) {
    if (!d.is_string()) return bad_args("del", "args.devices holds " + d.dump() + ", expected strings");
    which.push_back(d.get<std::string>());
  }
  return which;
}

// Goes on after a device that cannot be deleted; the error then names what was deleted all the same.
Task<Result<json>> DaemonService::del(json args) {
  const auto which = devices_to_delete(args);
  if (!which) co_return Unexpected(which.error());
  const StopMode mode = args.value("force", json(false)) == json(true) ? StopMode::force : StopMode::if_idle;
  json deleted = json::array(), absent = json::array();
  Result<void> first;
  for (const std::string& w : *which) {
    const auto removed = co_await table_.remove(w, mode);
    if (removed)
      deleted.push_back(w);
    else if (removed.error().kind == ErrorKind::not_found)
      absent.push_back(w);
    else if (first)
      first = removed;
  }
  if (!first) {
    Error error = first.error();
    if (!deleted.empty()) error.advice += " (deleted all the same: " + deleted.dump() + ")";
    co_return Unexpected(std::move(error));
  }
  co_return json{{"deleted", deleted}, {"absent", absent}};
}

Result<json> DaemonService::list(const json& args) const {
  json devices = json::array();
  const Shares shares = shares_in_force(table_);
  if (args.contains("device") && args["device"].is_string()) {
    const std::string which = args["device"];
    const auto* entry = table_.find(which);
    if (entry == nullptr) return fail(ErrorKind::not_found, "list", which, "there is no such device");
    devices.push_back(device_status(*entry, shares));
  } else {
    for (const auto& e : table_.entries()) devices.push_back(device_status(*e, shares));
  }
  return json{{"daemon", daemon_status()}, {"tag_sets", tag_sets_status(table_)}, {"devices", devices}};
}

Result<json> DaemonService::tags(const json& args) const {
  const auto set = args.find("tag_set");
  if (set == args.end()) return tags_status(table_, fairness_, "");
  if (!set->is_string() || set->get_ref<const std::string&>().empty())
    return bad_args("tags", "args.tag_set holds " + set->dump() + ", expected a name");
  return tags_status(table_, fairness_, *set);
}

}  // namespace ublkd
