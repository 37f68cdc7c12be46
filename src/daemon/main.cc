// ublkd: command line of the daemon.

#include <CLI/CLI.hpp>
#include <map>
#include <vector>

#include "abi/features.h"
#include "api/run_dir.h"
#include "base/log.h"
#include "control/control_ring.h"
#include "daemon/daemon.h"

int main(int argc, char** argv) {
  using namespace ublkd;
  DaemonOptions options;
  options.run_dir = api::run_dir_default;
  options.control_node = control_node_default;
  LogLevel level = LogLevel::info;

  CLI::App app{
      "Serves /dev/ublkbN block devices in user space.\n"
      "Runs in the foreground, logs to stderr, ends on SIGTERM and removes its devices."};
  app.set_version_flag("--version", std::string("ublkd ") + version);
  app.add_option("-c,--config", options.config_path,
                 "JSON config, or - for standard input; without it devices come by ublkctl add");
  app.add_option("--run-dir", options.run_dir, "directory of lock and control socket")->capture_default_str();
  app.add_option("--control-node", options.control_node, "the driver's control node")->capture_default_str();
  std::map<std::string, std::uint64_t> features;
  for (const abi::FeatureInfo& f : abi::feature_table()) features.emplace(f.name, abi::feature_bit(f.feature));
  std::vector<std::uint64_t> without;
  app.add_option("--without", without, "features of the ublk driver not to use, as BATCH_IO,AUTO_BUF_REG")
      ->delimiter(',')
      ->transform(CLI::CheckedTransformer(features, CLI::ignore_case));
  const std::map<std::string, LogLevel> levels{{"debug", LogLevel::debug},
                                               {"info", LogLevel::info},
                                               {"notice", LogLevel::notice},
                                               {"warning", LogLevel::warning},
                                               {"error", LogLevel::error}};
  app.add_option("--log-level", level, "debug, info, notice, warning or error")
      ->transform(CLI::CheckedTransformer(levels, CLI::ignore_case));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  for (const std::uint64_t bit : without) options.features_without |= bit;
  log_init(level);
  return run_daemon(options);
}
