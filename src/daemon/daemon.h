// Daemon: the composition root: puts control ring, device table and local API together, and sees
// them through start, service and end.
//
// Thread rule: run() on the thread that calls it, which is the control thread.
#pragma once

#include <cstdint>
#include <string>

#include "config/config.h"

namespace ublkd {

struct DaemonOptions {
  std::string config_path;  // empty: no devices but those added later; "-": standard input
  std::string run_dir;
  std::string control_node;
  std::uint64_t features_without = 0;  // of the driver, that are not to be used
};

inline constexpr const char* version = UBLKD_VERSION;

// Serves until SIGTERM or SIGINT, then removes its devices. Returns the exit status: 0 ended as
// asked; 1 could not start, no configured device could be started, or something was left behind.
[[nodiscard]] int run_daemon(const DaemonOptions& options);

}  // namespace ublkd
