#include "mq/inflight_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace ublkd {
namespace {

constexpr Tag tag{3};

std::vector<std::pair<Tag, std::uint32_t>> expired(const InflightTable& table, std::uint64_t now_ns) {
  std::vector<std::pair<Tag, std::uint32_t>> out;
  table.scan(now_ns, [&](Tag t, std::uint32_t mark) { out.emplace_back(t, mark); });
  return out;
}

TEST(InflightTable, FindsWhatIsOlderThanItsDeadlineOnly) {
  InflightTable table(8);
  Request rq;
  table.start(tag, rq, 100);
  EXPECT_TRUE(expired(table, 100).empty());
  ASSERT_EQ(expired(table, 101).size(), 1u);
  EXPECT_EQ(table.find(tag, expired(table, 101)[0].second), &rq);
  table.end(tag, rq);
  EXPECT_TRUE(expired(table, 101).empty());
}

TEST(InflightTable, AMarkOfAnEarlierStartFindsNothing) {
  InflightTable table(8);
  Request rq;
  table.start(tag, rq, 100);
  const auto mark = expired(table, 200)[0].second;
  table.end(tag, rq);
  EXPECT_EQ(table.find(tag, mark), nullptr);
  table.start(tag, rq, 100);
  EXPECT_EQ(table.find(tag, mark), nullptr) << "the same request under the same tag, started again";
  EXPECT_EQ(table.at(tag), &rq);
}

TEST(InflightTable, ARequestMayEndUnderItsOwnTagOnly) {
  InflightTable table(8);
  Request rq, other;
  table.start(tag, rq, 100);
  EXPECT_DEATH(table.end(tag, other), "check failed");
  EXPECT_DEATH(table.end(Tag{4}, rq), "check failed");
}

// State is published last (linux-block: blk_mq_start_request sets the deadline and the state without an order that a
// timeout scan on another CPU could rely on): here a scanner never sees a start with its predecessor's deadline. Each
// deadline lies ahead of the scanner's clock, so whatever it finds would be an old deadline under a new mark.
TEST(InflightTable, AScannerNeverSeesADeadlineOfAnEarlierStart) {
  constexpr int starts = 200'000;
  InflightTable table(1);
  Request rq;
  std::atomic<std::uint64_t> clock{1000};
  std::atomic<bool> stop{false}, scanning{false};
  std::uint64_t found = 0;
  std::thread scanner([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      const std::uint64_t now = clock.load(std::memory_order_acquire);
      table.scan(now, [&](Tag, std::uint32_t) { ++found; });
      scanning.store(true);
      scanning.notify_one();
    }
  });
  scanning.wait(false);
  for (int i = 0; i < starts; ++i) {
    const std::uint64_t now = clock.load(std::memory_order_relaxed) + 1000;
    table.start(Tag{0}, rq, now + 500);  // before the clock moves on: the last deadline is behind now
    clock.store(now, std::memory_order_release);
    table.end(Tag{0}, rq);
  }
  stop.store(true, std::memory_order_relaxed);
  scanner.join();
  EXPECT_EQ(found, 0u);
}

}  // namespace
}  // namespace ublkd
