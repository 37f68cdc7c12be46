#include "control/timeout_watch.h"

#include <gtest/gtest.h>

namespace ublkd {
namespace {

using namespace std::chrono_literals;

TEST(ScanIntervalTest, IsAQuarterOfTheSmallestTimeout) {
  constexpr std::uint64_t ms = 1'000'000;
  const auto interval = [](std::vector<std::uint64_t> timeouts_ns) { return scan_interval(timeouts_ns); };
  EXPECT_EQ(interval({}), std::nullopt);
  EXPECT_EQ(interval({0, 0}), std::nullopt);
  EXPECT_EQ(interval({0, 2000 * ms, 400 * ms}), 100ms);
  EXPECT_EQ(interval({1}), 10ms);
  EXPECT_EQ(interval({60'000 * ms}), 1s);
}

TEST(PeriodicTest, RunsWhileThereIsWorkAndLeavesNoTimer) {
  asio::io_context io;
  int left = 3, ran = 0;
  Periodic periodic(
      io, [&]() -> std::optional<std::chrono::nanoseconds> { return left > 0 ? std::optional(1ms) : std::nullopt; },
      [&] { ++ran, --left; });
  io.run();
  EXPECT_EQ(ran, 0) << "nobody woke it";
  io.restart();
  periodic.wake();
  io.run();  // ends: no timer is left
  EXPECT_EQ(ran, 3);
  left = 1;
  io.restart();
  periodic.wake();
  periodic.wake();
  io.run();
  EXPECT_EQ(ran, 4);
}

TEST(PeriodicTest, AShorterIntervalIsNotPutOffByTheLongerOneBefore) {
  asio::io_context io;
  auto interval = std::chrono::nanoseconds(1h);
  bool ran = false;
  Periodic periodic(
      io, [&]() -> std::optional<std::chrono::nanoseconds> { return ran ? std::nullopt : std::optional(interval); },
      [&] { ran = true; });
  periodic.wake();
  interval = 1ms;
  periodic.wake();
  interval = 1h;
  periodic.wake();
  io.run();
  EXPECT_TRUE(ran);
}

TEST(PeriodicTest, MayGoWhileItsTimerRuns) {
  asio::io_context io;
  {
    Periodic periodic(io, [] { return std::optional<std::chrono::nanoseconds>(1h); }, [] { FAIL(); });
    periodic.wake();
  }
  io.run();
}

}  // namespace
}  // namespace ublkd
