#include "cli/watch.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

namespace ublkd::cli {

void run_watch(const Watch& watch) {
  ::signal(SIGINT, [](int) { ::_exit(0); });  // what was printed is out already
  constexpr const char* home_and_clear = "\033[H\033[2J";
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  for (;;) {
    const auto due = std::chrono::steady_clock::now() + watch.interval;
    std::string block = watch.next();
    if (block.empty()) return;
    if (terminal) block.insert(0, home_and_clear);
    std::fwrite(block.data(), 1, block.size(), stdout);
    if (std::fflush(stdout) != 0) return;
    std::this_thread::sleep_until(due);
  }
}

}  // namespace ublkd::cli
