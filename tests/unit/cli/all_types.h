// The target types of the program, for tests of the command line.
#pragma once

#include "config/parse.h"
#include "daemon/target_types.h"

namespace ublkd::cli {

inline TargetTypes all_types() {
  return target_types();
}

}  // namespace ublkd::cli
