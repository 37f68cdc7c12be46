// Seeded simulation of the dispatcher: devices come with bursts, targets take parts, decline, complete
// at once, late, or with errors. The invariants are checked after every step; at the end all is idle.
// A failing run prints its seed; UBLKD_SEED repeats it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "unit/mq/mq_rig.h"

namespace ublkd {
namespace {

using mq_test::MqRig;

constexpr int rounds = 60;
constexpr int steps_per_round = 1500;

std::uint64_t base_seed() {
  const char* given = std::getenv("UBLKD_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

class Simulation {
 public:
  explicit Simulation(std::uint64_t seed)
      : random_(seed), rig_(1 + pick(pick(2) == 0 ? 8 : 300), 1 + pick(9)) {}

  void run() {
    for (int step = 0; step < steps_per_round && !testing::Test::HasFatalFailure(); ++step) one_step();
    drain();
  }

 private:
  std::uint32_t pick(std::uint32_t below) { return static_cast<std::uint32_t>(random_() % below); }

  void one_step() {
    ++rig_.turn;
    rig_.now_ns += pick(400'000);
    const std::uint32_t bursts = pick(3);
    for (std::uint32_t b = 0; b < bursts; ++b) {
      const std::size_t d = pick(static_cast<std::uint32_t>(rig_.devices()));
      for (std::uint32_t n = pick(40); n > 0; --n, ++arrived_) rig_.arrive(d);
    }
    for (std::size_t d = 0; d < rig_.devices(); ++d) change_target(rig_.device(d).target);
    rig_.dispatch();
    take_reaped();
    if (pick(200) == 0) fail_device(rig_.device(pick(static_cast<std::uint32_t>(rig_.devices()))));
  }

  void change_target(mq_test::HoldingTarget& target) {
    target.accept = pick(4) == 0 ? pick(5) : ~0u;
    target.inline_complete = pick(5) == 0;
    for (std::uint32_t n = pick(30); n > 0 && !target.taken.empty(); --n) {
      Request& rq = *target.taken[pick(static_cast<std::uint32_t>(target.taken.size()))];
      target.finish(rq, pick(10) == 0 ? -5 : 0);
    }
  }

  // What the queue does to a device that is removed by force.
  void fail_device(mq_test::MqDevice& device) {
    ended_ += rig_.dispatcher.take_waiting(device.state).size();
    while (!device.target.taken.empty()) device.target.abort(*device.target.taken.front());
    rig_.dispatch();
    take_reaped();
  }

  void take_reaped() {
    for (const Request* rq = rig_.reaped.front(); rq != nullptr; rq = rq->next) {
      ASSERT_EQ(rq->state, RequestState::done);
      ASSERT_EQ(rq->tag, tag_none);
    }
    ended_ += rig_.reaped.size();
    rig_.reaped.clear();
  }

  void drain() {
    for (int turns = 0; ended_ < arrived_ && turns < 100'000; ++turns) {
      rig_.now_ns += decline_retry_ns;
      for (std::size_t d = 0; d < rig_.devices(); ++d) {
        rig_.device(d).target.accept = ~0u;
        rig_.device(d).target.inline_complete = true;
        while (!rig_.device(d).target.taken.empty()) rig_.device(d).target.finish(*rig_.device(d).target.taken.front());
      }
      rig_.dispatch();
      take_reaped();
      if (testing::Test::HasFatalFailure()) return;
    }
    ASSERT_EQ(ended_, arrived_) << "every request ends exactly once";
    ASSERT_EQ(rig_.dispatcher.pool().free(), rig_.dispatcher.pool().depth()) << "all tags are free when all is idle";
  }

  std::mt19937_64 random_;
  MqRig rig_;
  std::uint64_t arrived_ = 0;
  std::uint64_t ended_ = 0;
};

TEST(DispatchSimulation, KeepsItsInvariants) {
  const std::uint64_t seed = base_seed();
  std::printf("UBLKD_SEED=%llu\n", static_cast<unsigned long long>(seed));
  for (int round = 0; round < rounds && !HasFatalFailure(); ++round) {
    SCOPED_TRACE("UBLKD_SEED=" + std::to_string(seed) + " round " + std::to_string(round));
    Simulation(seed + static_cast<std::uint64_t>(round)).run();
  }
}

}  // namespace
}  // namespace ublkd
