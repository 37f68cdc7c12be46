#include "control/tag_set.h"

#include <gtest/gtest.h>

#include "tests/unit/control/build_set.h"

namespace ublkd {
namespace {

// Memory for tables up to `bytes` each, and `count` in all that live at once or not.
MapMemory tables_up_to(std::size_t bytes_max, std::uint32_t& calls) {
  return [bytes_max, &calls](std::size_t bytes, const std::string& what) -> Result<Mapping> {
    ++calls;
    if (bytes > bytes_max) return fail_errno(ENOMEM, "map memory", what);
    return Mapping::populated(bytes, what);
  };
}

TagSetConfig config(std::uint32_t queues, std::uint32_t depth) {
  TagSetConfig c;
  c.name = "test";
  c.hw_queues = queues;
  c.depth = depth;
  c.slots_total_max = 2 * depth;
  return c;
}

// DESIGN: building a set yields (linux-block: soft lockups while blk_mq_alloc_tag_set built many deep queues).
TEST(TagSetBuild, LetsOtherWorkRunBetweenTwoQueues) {
  std::uint32_t calls = 0;
  const Built built = build_set(config(8, 1), {.map_memory = tables_up_to(~std::size_t{0}, calls)});
  ASSERT_TRUE(built.set.has_value());
  EXPECT_GE(built.other_work, 8u) << "also at depth 1: there is no depth below which it does not yield";
}

TEST(TagSetBuild, HalvesTheDepthUntilTheMemoryIsEnough) {
  std::uint32_t calls = 0;
  const Built built = build_set(config(3, 64), {.map_memory = tables_up_to(2 * 16 * sizeof(Request), calls)});
  ASSERT_TRUE(built.set.has_value()) << built.set.error().text();
  const TagSet& set = **built.set;
  EXPECT_EQ(set.config().depth, 16u);
  EXPECT_EQ(set.config().slots_total_max, 32u);
  EXPECT_EQ(set.depth_asked(), 64u);
  ASSERT_EQ(set.hw_queues().size(), 3u);
  for (const auto& hw : set.hw_queues()) EXPECT_EQ(hw->snapshot().depth, 16u) << "one depth for all queues";
  EXPECT_EQ(calls, 2u + 3u);
}

// The last queue fails: those that stand are taken down and built again too.
TEST(TagSetBuild, ALateFailureRebuildsAllQueues) {
  std::uint32_t calls = 0;
  const MapMemory fourth_fails = [&calls](std::size_t bytes, const std::string& what) -> Result<Mapping> {
    if (++calls == 4) return fail_errno(ENOMEM, "map memory", what);
    return Mapping::populated(bytes, what);
  };
  const Built built = build_set(config(4, 32), {.map_memory = fourth_fails});
  ASSERT_TRUE(built.set.has_value());
  EXPECT_EQ((*built.set)->config().depth, 16u);
  EXPECT_EQ((*built.set)->hw_queues().size(), 4u);
  EXPECT_EQ(calls, 4u + 4u);
  EXPECT_GE(built.other_work, 3u + 3u + 4u) << "taking down yields too";
}

TEST(TagSetBuild, WithoutMemoryForOneTagItFails) {
  std::uint32_t calls = 0;
  const Built built = build_set(config(2, 8), {.map_memory = tables_up_to(0, calls)});
  ASSERT_FALSE(built.set.has_value());
  EXPECT_EQ(built.set.error().kind, ErrorKind::no_memory);
  EXPECT_EQ(calls, 4u) << "8, 4, 2, 1";
}

TEST(TagSetBuild, OtherErrorsAreNotAnsweredWithLessDepth) {
  std::uint32_t calls = 0;
  const MapMemory refused = [&calls](std::size_t, const std::string& what) -> Result<Mapping> {
    ++calls;
    return fail_errno(EPERM, "map memory", what);
  };
  const Built built = build_set(config(2, 8), {.map_memory = refused});
  ASSERT_FALSE(built.set.has_value());
  EXPECT_EQ(built.set.error().kind, ErrorKind::permission);
  EXPECT_EQ(calls, 1u);
}

TEST(TagSetBuild, ScopeSetGivesAllQueuesOnePool) {
  TagSetConfig c = config(3, 8);
  c.scope = TagScope::set;
  std::uint32_t calls = 0;
  const Built built = build_set(c, {.map_memory = tables_up_to(~std::size_t{0}, calls)});
  ASSERT_TRUE(built.set.has_value());
  TagSet& set = **built.set;
  const std::uint32_t first = set.join(1), second = set.join(2);
  EXPECT_NE(first, second);
  set.leave(first);
  EXPECT_EQ(set.join(1), first);
  set.leave(first);
  set.leave(second);
}

}  // namespace
}  // namespace ublkd
