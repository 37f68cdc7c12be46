#include "daemon/service.h"

#include <unistd.h>

#include "config/parse.h"
#include "daemon/status.h"

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
  if (verb == "features") co_return features_status(env_.features);
  if (verb == "add") co_return co_await add(std::move(args));
  if (verb == "del") co_return co_await del(std::move(args));
  co_return fail(ErrorKind::unsupported, verb, "", "no such verb; known: ping, add, del, list, features");
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
  co_return device_status(*entry);
}

Task<Result<json>> DaemonService::del(json args) {
  const bool force = args.value("force", false);
  const StopMode mode = force ? StopMode::force : StopMode::if_idle;
  std::vector<std::string> which;
  if (args.value("all", false)) {
    for (const auto& e : table_.entries()) which.push_back(e->name);
  } else if (args.contains("devices")) {
    for (const json& d : args["devices"]) which.push_back(d.get<std::string>());
  } else {
    co_return bad_args("del", "args.devices (a list) or args.all is missing");
  }
  json deleted = json::array(), absent = json::array();
  for (const std::string& w : which) {
    const auto removed = co_await table_.remove(w, mode);
    if (removed)
      deleted.push_back(w);
    else if (removed.error().kind == ErrorKind::not_found)
      absent.push_back(w);
    else
      co_return Unexpected(removed.error());
  }
  co_return json{{"deleted", deleted}, {"absent", absent}};
}

Result<json> DaemonService::list(const json& args) const {
  json devices = json::array();
  if (args.contains("device") && args["device"].is_string()) {
    const std::string which = args["device"];
    const auto* entry = table_.find(which);
    if (entry == nullptr) return fail(ErrorKind::not_found, "list", which, "there is no such device");
    devices.push_back(device_status(*entry));
  } else {
    for (const auto& e : table_.entries()) devices.push_back(device_status(*e));
  }
  return json{{"daemon", daemon_status()}, {"tag_sets", tag_sets_status(table_)}, {"devices", devices}};
}

}  // namespace ublkd
