// The deadline of a control command, without a driver: /dev/ublk-control is played by a file that
// answers nothing or refuses.
#include "control/control_ring.h"

#include <gtest/gtest.h>

namespace ublkd {
namespace {

using namespace std::chrono_literals;

TEST(ControlRing, A60_AMissingNodeSaysThatTheModuleIsNotLoaded) {
  asio::io_context io;
  auto ring = ControlRing::open(io, "/nonexistent/ublk-control");
  ASSERT_FALSE(ring.has_value());
  EXPECT_EQ(ring.error().kind, ErrorKind::not_found);
  EXPECT_NE(ring.error().text().find("modprobe ublk_drv"), std::string::npos);
}

TEST(ControlRing, ANodeThatIsNotTheDriversRefusesEachCommand) {
  asio::io_context io;
  auto ring = ControlRing::open(io, "/dev/zero");
  if (!ring) GTEST_SKIP() << ring.error().text();
  bool answered = false;
  asio::co_spawn(
      io,
      [&]() -> Task<void> {
        const auto command = (*ring)->send({.name = "STOP_DEV", .op = abi::u_cmd_stop_dev, .device_id = 3});
        const auto result = co_await command->wait(5s);
        answered = command->answered();
        EXPECT_EQ(result.value_or(0), 0);  // some kernels let /dev/zero take any command
        io.stop();
      },
      [](std::exception_ptr) {});
  io.run();
  EXPECT_TRUE(answered);
}

TEST(Event, A58_AWaitEndsAtItsDeadlineWhenNothingHappens) {
  asio::io_context io;
  Event never(io);
  bool happened = true;
  asio::co_spawn(
      io, [&]() -> Task<void> { happened = co_await never.wait_until(after(5ms)); }, [](std::exception_ptr) {});
  io.run();
  EXPECT_FALSE(happened);
}

}  // namespace
}  // namespace ublkd
