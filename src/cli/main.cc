// ublkctl: the command line of ublkd.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "api/run_dir.h"
#include "cli/run.h"
#include "daemon/target_types.h"

int main(int argc, char** argv) {
  using namespace ublkd;
  std::error_code ec;
  cli::CommandLine line;
  line.words.assign(argv + std::min(argc, 1), argv + argc);
  line.working_dir = std::filesystem::current_path(ec).string();
  line.socket_default = api::default_socket_path();
  line.version = UBLKD_VERSION;
  const cli::Printed printed = cli::run(line, target_types());
  std::fwrite(printed.out.data(), 1, printed.out.size(), stdout);
  std::fwrite(printed.err.data(), 1, printed.err.size(), stderr);
  // A full disk or a closed pipe must not look like success to a script.
  if (std::fflush(stdout) != 0) return static_cast<int>(cli::ExitCode::failed);
  return static_cast<int>(printed.code);
}
