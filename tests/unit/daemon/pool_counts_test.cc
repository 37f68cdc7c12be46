// Readings of tag pools, quiet and while other threads move the tags.
#include "daemon/pool_counts.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <random>
#include <thread>

#include "base/clock.h"
#include "daemon/tags_status.h"

namespace ublkd {
namespace {

constexpr std::uint64_t second_ns = 1'000'000'000;

// A pool of devices whose counters the test sets.
struct Fake {
  explicit Fake(std::uint32_t depth, std::vector<std::uint32_t> weights) {
    pool.queue = 0;
    pool.depth = depth;
    for (const std::uint32_t weight : weights)
      pool.members.push_back({"d" + std::to_string(states.size()), weight, {&states.emplace_back()}});
  }
  PoolCounts read(ShareParams params = {}) const { return read_pool(pool, params); }
  void hold(std::size_t i, std::uint64_t tags) {
    states[i].tags_taken.add(tags);
    states[i].touched_ns.set(monotonic_ns());
    states[i].last_use_ns.set(monotonic_ns());
  }
  std::deque<DeviceState> states;
  Pool pool;
};

TEST(PoolCountsTest, AQuietPoolIsFreeAndItsDevicesAreIdle) {
  Fake fake(32, {1, 3});
  const PoolCounts p = fake.read();
  EXPECT_EQ(p.free, 32u);
  EXPECT_EQ(p.active, 0u);
  EXPECT_EQ(p.devices_in_use, 0u);
  for (const MemberCounts& m : p.members) {
    EXPECT_FALSE(m.in_use);
    EXPECT_EQ(m.share, 32) << "what it would have if it began now";
    EXPECT_EQ(m.borrowed, 0);
  }
}

TEST(PoolCountsTest, SharesAreOfThoseInUseByWeight) {
  Fake fake(32, {1, 3, 4});
  fake.hold(0, 20);
  fake.states[1].waiting_now.set(5);
  const PoolCounts p = fake.read();
  EXPECT_EQ(p.free, 12u);
  EXPECT_EQ(p.weight_in_use, 4u);
  EXPECT_EQ(p.members[0].share, 8);
  EXPECT_EQ(p.members[0].borrowed, 12);
  EXPECT_EQ(p.members[1].share, 24);
  EXPECT_TRUE(p.members[1].in_use);
  EXPECT_FALSE(p.members[2].in_use);
  EXPECT_EQ(p.members[2].share, 16);
}

TEST(PoolCountsTest, SharesOfEachPolicy) {
  EXPECT_EQ(share_in_force(SharePolicy::none, 32, 5, 3, 9), 32);
  EXPECT_EQ(share_in_force(SharePolicy::equal, 32, 5, 3, 9), 11);
  EXPECT_EQ(share_in_force(SharePolicy::equal, 32, 5, 20, 99), 4);
  EXPECT_EQ(share_in_force(SharePolicy::equal, 1, 5, 20, 99), 1);
  EXPECT_EQ(share_in_force(SharePolicy::equal, 2, 1, 2, 2), 2);
  EXPECT_EQ(share_in_force(SharePolicy::adaptive, 32, 1, 3, 8), 4);
}

TEST(PoolCountsTest, UseIsRememberedAsLongAsThePolicySays) {
  Fake fake(32, {1});
  fake.hold(0, 1);
  fake.states[0].tags_put.add(1);
  fake.states[0].last_use_ns.set(monotonic_ns() - second_ns);
  EXPECT_FALSE(fake.read().members[0].in_use);
  EXPECT_TRUE(fake.read({.policy = SharePolicy::equal}).members[0].in_use);
  EXPECT_TRUE(fake.read({.grace_ns = 2 * second_ns}).members[0].in_use);
}

TEST(PoolCountsTest, TimesGoOnWhileTheQueueDoesNothing) {
  Fake fake(32, {1, 1});
  fake.hold(0, 3);
  fake.states[0].waiting_now.set(1);
  fake.states[1].waiting_now.set(1);
  for (DeviceState& s : fake.states) {
    s.touched_ns.set(monotonic_ns() - second_ns);
    s.waited_ns.set(5);
  }
  const PoolCounts p = fake.read();
  EXPECT_GE(p.members[0].tag_time_ns, 3 * second_ns);
  EXPECT_LT(p.members[0].tag_time_ns, 3 * 60 * second_ns);
  EXPECT_GE(p.members[0].waited_ns, second_ns + 5);
  EXPECT_EQ(p.members[0].starved_ns, 0u) << "it holds tags";
  EXPECT_GE(p.members[1].starved_ns, second_ns);
}

TEST(PoolCountsTest, OnePoolForAllQueuesAddsThemUp) {
  std::deque<DeviceState> states(2);
  states[0].tags_taken.set(3);
  states[1].tags_taken.set(4);
  for (DeviceState& s : states) s.touched_ns.set(monotonic_ns());
  const PoolCounts p = read_pool({.depth = 16, .members = {{"a", 1, {&states[0], &states[1]}}}}, {});
  EXPECT_EQ(p.members[0].active, 7u);
  EXPECT_EQ(p.free, 9u);
  EXPECT_TRUE(pool_status(p)["queue"].is_null());
}

TEST(PoolCountsTest, StatusHasTheBatchesThatWere) {
  Fake fake(64, {2});
  fake.hold(0, 40);
  fake.states[0].part_asked.record(1);
  fake.states[0].part_asked.record(33);
  fake.states[0].part_asked.record(64);
  fake.states[0].timeouts.add(2);
  const nlohmann::json status = pool_status(fake.read());
  EXPECT_EQ(status["queue"], 0);
  EXPECT_EQ(status["free"], 24);
  const nlohmann::json& d = status["devices"][0];
  EXPECT_EQ(d["asked"], nlohmann::json::parse(R"([{"up_to": 1, "count": 1}, {"up_to": 64, "count": 2}])"));
  EXPECT_EQ(d["got"], nlohmann::json::array());
  EXPECT_EQ(d["active"], 40);
  EXPECT_EQ(d["state"], "active");
  EXPECT_EQ(d["timeouts"], 2);
}

// The queue's thread in small: tags go from one device to another as fast as can be, never more than there are.
TEST(PoolCountsTest, NoReadingOfABusyPoolContradictsItself) {
  constexpr std::uint32_t depth = 16;
  Fake fake(depth, {1, 1, 1, 1});
  std::atomic<bool> stop = false;
  std::thread queue([&] {
    std::mt19937 random(1);
    std::array<std::uint32_t, 4> held{};
    std::uint32_t sum = 0;
    while (!stop.load(std::memory_order_relaxed)) {
      const std::uint32_t i = random() % 4, n = 1 + random() % depth;
      DeviceState& s = fake.states[i];
      const std::uint32_t change = held[i] > 0 ? std::min(n, held[i]) : std::min(n, depth - sum);
      (held[i] > 0 ? s.tags_put : s.tags_taken).add(change);
      const bool puts = held[i] > 0;
      held[i] = puts ? held[i] - change : held[i] + change;
      sum = puts ? sum - change : sum + change;
      s.touched_ns.set(monotonic_ns());
    }
  });
  PoolCounts before = fake.read();
  for (int i = 0; i < 20'000; ++i) {
    const PoolCounts now = fake.read();
    std::uint64_t active = 0;
    for (std::size_t d = 0; d < 4; ++d) {
      const MemberCounts& m = now.members[d];
      active += m.active;
      ASSERT_EQ(m.taken - m.put, m.active);
      ASSERT_LE(m.active, depth);
      ASSERT_GE(m.taken, before.members[d].taken);
      ASSERT_GE(m.put, before.members[d].put);
    }
    ASSERT_LE(active, depth);
    ASSERT_EQ(active, depth - now.free);
    before = now;
  }
  stop = true;
  queue.join();
}

}  // namespace
}  // namespace ublkd
