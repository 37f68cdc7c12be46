#include "queue/range_allocator.h"

#include <gtest/gtest.h>

namespace ublkd {
namespace {

TEST(RangeAllocator, GivesRangesThatDoNotOverlapUntilFull) {
  RangeAllocator ranges(10);
  EXPECT_EQ(ranges.take(4), 0u);
  EXPECT_EQ(ranges.take(4), 4u);
  EXPECT_FALSE(ranges.take(4).has_value());
  EXPECT_EQ(ranges.take(2), 8u);
  EXPECT_EQ(ranges.free(), 0u);
}

TEST(RangeAllocator, UsesAHoleAgain) {
  RangeAllocator ranges(12);
  for (int i = 0; i < 3; ++i) (void)ranges.take(4);
  ranges.put(4);
  EXPECT_EQ(ranges.take(3), 4u);
  EXPECT_FALSE(ranges.take(4).has_value()) << "the rest of the hole is too small";
  EXPECT_EQ(ranges.take(1), 7u);
}

TEST(RangeAllocator, AnEmptyRangeTakesNothing) {
  RangeAllocator ranges(2);
  EXPECT_TRUE(ranges.take(0).has_value());
  EXPECT_EQ(ranges.free(), 2u);
}

}  // namespace
}  // namespace ublkd
