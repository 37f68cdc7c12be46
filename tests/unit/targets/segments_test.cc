// Counting segments by a shift: exact at every edge, and what the geometry of a backing makes of it.
#include "ublkd/segments.h"

#include <gtest/gtest.h>

#include "targets/file/backing_geometry.h"

namespace ublkd {
namespace {

constexpr std::uint32_t huge_shift = 21;
constexpr std::uint32_t kib = 1024;
constexpr std::uint32_t mib = 1024 * kib;

static_assert(segments_touched(0, 1, page_shift) == 1);
static_assert(segments_touched(page_bytes - 1, 2, page_shift) == 2);

// By a walk over the units.
std::uint64_t walked(std::uint64_t offset, std::uint64_t length, std::uint64_t unit) {
  std::uint64_t n = 0;
  for (std::uint64_t at = 0; at < offset + length; at += unit) ++n;
  return n;
}

TEST(Segments, TheShiftCountsWhatAWalkCounts) {
  for (const std::uint32_t shift : {page_shift, huge_shift}) {
    const std::uint64_t unit = std::uint64_t{1} << shift;
    for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{1}, unit / 2, unit - 1})
      for (const std::uint64_t length :
           {std::uint64_t{1}, std::uint64_t{2}, unit - 1, unit, unit + 1, 7 * unit - 1, 7 * unit, 7 * unit + 1,
            (std::uint64_t{1} << 32) - 1, std::uint64_t{1} << 32, (std::uint64_t{1} << 32) + 1})
        ASSERT_EQ(segments_touched(offset, length, shift), walked(offset, length, unit))
            << offset << " " << length << " " << shift;
  }
}

TEST(Segments, TheLongestRangeDoesNotOverflow) {
  const std::uint64_t last = (std::uint64_t{1} << segment_unit_shift_max) - 1;
  EXPECT_EQ(segments_touched(last, device_bytes_max, segment_unit_shift_max),
            (device_bytes_max >> segment_unit_shift_max) + 2);
}

TEST(SegmentsDeathTest, AnEmptyRangeAndAnOffsetOutsideTheUnitEndTheProcess) {
  EXPECT_DEATH((void)segments_touched(0, 0, page_shift), "length_bytes");
  EXPECT_DEATH((void)segments_touched(page_bytes, 1, page_shift), "offset_in_unit");
  EXPECT_DEATH((void)segments_touched(0, 1, segment_unit_shift_max + 1), "unit_shift");
}

// What linux-block asks for with fixed buffers: split only what exceeds the exact count, and nothing that does not.
TEST(Segments, ARequestIsAsLargeAsTheBackingTakesWhole) {
  EXPECT_EQ(unsplit_io_bytes(mib, {}), mib) << "no limit known";
  EXPECT_EQ(unsplit_io_bytes(mib, {.segments_max = 256}), mib) << "exactly its pages";
  EXPECT_EQ(unsplit_io_bytes(mib, {.segments_max = 255}), mib - page_bytes);
  EXPECT_EQ(unsplit_io_bytes(mib, {.segments_max = 127}), 127 * page_bytes) << "of many NVMe drives";
  EXPECT_EQ(unsplit_io_bytes(mib, {.segments_max = 1}), page_bytes);
  EXPECT_EQ(unsplit_io_bytes(mib, {.segments_max = 65535}), mib);
}

TEST(Segments, ALimitInBytesIsKeptInWholePages) {
  EXPECT_EQ(unsplit_io_bytes(mib, {.io_bytes_max = 1280 * kib}), mib);
  EXPECT_EQ(unsplit_io_bytes(mib, {.io_bytes_max = 127 * kib}), 124 * kib);
  EXPECT_EQ(unsplit_io_bytes(mib, {.segments_max = 8, .io_bytes_max = 64 * kib}), 32 * kib);
  EXPECT_EQ(unsplit_io_bytes(mib, {.segments_max = 128, .io_bytes_max = 64 * kib}), 64 * kib);
  EXPECT_EQ(unsplit_io_bytes(mib, {.io_bytes_max = kib}), page_bytes) << "never below a page";
}

}  // namespace
}  // namespace ublkd
