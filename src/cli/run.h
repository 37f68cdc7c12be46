// Runs one command line of ublkctl from its words to what is printed and the exit status.
//
// Thread rule: one thread; blocks for the daemon's answer.
#pragma once

#include <string>

#include "cli/command.h"
#include "config/parse.h"

namespace ublkd::cli {

struct Printed {
  std::string out;  // standard output
  std::string err;  // standard error
  ExitCode code = ExitCode::done;
};

// Never throws. `tags --watch` prints by itself; what is returned then is its end.
[[nodiscard]] Printed run(const CommandLine& line, TargetTypes types);

}  // namespace ublkd::cli
