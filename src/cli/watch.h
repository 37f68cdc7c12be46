// `ublkctl tags --watch`: the same answer again and again, each printed at once.
//
// Thread rule: the main thread; returns on an error only. Ctrl-C ends the process with status 0.
#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace ublkd::cli {

struct Watch {
  std::chrono::milliseconds interval{1000};
  // The next block to print; empty: stop.
  std::function<std::string()> next;
};

// Prints blocks to standard output until next() has none or the output is closed. On a terminal each takes the place of
// the last.
void run_watch(const Watch& watch);

}  // namespace ublkd::cli
