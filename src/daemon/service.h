// DaemonService: the verbs of the local API on the device table. Control thread.
#pragma once

#include "api/server.h"
#include "control/device_table.h"
#include "daemon/daemon.h"
#include "daemon/fairness_watch.h"

namespace ublkd {

class DaemonService final : public api::Service {
 public:
  DaemonService(DeviceTable& table, const FairnessWatch& fairness, const ControlEnvironment& env,
                const DaemonOptions& options)
      : table_(table), fairness_(fairness), env_(env), options_(options) {}

  boost::asio::awaitable<Result<nlohmann::json>> call(std::string verb, nlohmann::json args) override;

 private:
  Task<Result<nlohmann::json>> add(nlohmann::json args);
  Task<Result<nlohmann::json>> del(nlohmann::json args);
  Result<std::vector<std::string>> devices_to_delete(const nlohmann::json& args) const;
  Result<nlohmann::json> list(const nlohmann::json& args) const;
  Result<nlohmann::json> tags(const nlohmann::json& args) const;
  nlohmann::json daemon_status() const;

  DeviceTable& table_;
  const FairnessWatch& fairness_;
  const ControlEnvironment& env_;
  const DaemonOptions& options_;
};

}  // namespace ublkd
