#include "control/blocking.h"

#include <gtest/gtest.h>

#include <future>

namespace ublkd {
namespace {

using namespace std::chrono_literals;

Result<int> run_one(std::chrono::milliseconds limit, std::function<Result<int>()> f) {
  asio::io_context io;
  Result<int> out = 0;
  asio::co_spawn(
      io,
      [&]() -> Task<void> {
        auto r = co_await run_blocking<int>(io, "test", limit, std::move(f));
        out = std::move(r);
      },
      [](std::exception_ptr) {});
  io.run();
  return out;
}

TEST(RunBlocking, GivesTheResult) {
  const auto r = run_one(60s, []() -> Result<int> { return 42; });
  ASSERT_TRUE(r.has_value());
  EXPECT_EQ(*r, 42);
}

TEST(RunBlocking, GivesTheError) {
  const auto r = run_one(60s, []() -> Result<int> { return fail(ErrorKind::busy, "x", "y", "z"); });
  ASSERT_FALSE(r.has_value());
  EXPECT_EQ(r.error().kind, ErrorKind::busy);
}

TEST(RunBlocking, GivesUpAtItsLimitAndTheThreadGoesOnAlone) {
  std::promise<void> release, ended;
  auto released = release.get_future().share();
  const auto r = run_one(5ms, [released, &ended]() -> Result<int> {
    released.wait();
    ended.set_value();
    return 1;
  });
  ASSERT_FALSE(r.has_value());
  EXPECT_EQ(r.error().kind, ErrorKind::timeout);
  release.set_value();
  ended.get_future().wait();
}

}  // namespace
}  // namespace ublkd
