#include "ring/ring.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/utsname.h>

#include <cstdio>
#include <cstring>

#include "base/clock.h"
#include "base/fd.h"

namespace ublkd {
namespace {

Ring small_ring(std::uint32_t sq, std::uint32_t cq) {
  auto ring = Ring::make({.sq_entries = sq, .cq_entries = cq, .files = 4});
  EXPECT_TRUE(ring.has_value()) << ring.error().text();
  return std::move(*ring);
}

std::uint32_t reap_all(Ring& ring, std::uint32_t wanted) {
  std::uint32_t seen = 0;
  for (int turns = 0; seen < wanted && turns < 10'000; ++turns) {
    EXPECT_EQ(ring.enter(1, 0, time_never_ns), 0);
    seen += ring.for_each_cqe([](const io_uring_cqe& cqe) { EXPECT_EQ(cqe.res, 0); });
  }
  return seen;
}

TEST(Ring, A53_AFullSubmissionRingIsSubmittedAndUsedAgain) {
  Ring ring = small_ring(4, 256);
  for (int i = 0; i < 64; ++i) io_uring_prep_nop(ring.sqe());
  EXPECT_EQ(reap_all(ring, 64), 64u);
}

TEST(Ring, A54_MoreCompletionsThanTheRingHoldsAreNotLost) {
  Ring ring = small_ring(64, 64);
  constexpr std::uint32_t burst = 256;
  for (std::uint32_t i = 0; i < burst; ++i) io_uring_prep_nop(ring.sqe());
  EXPECT_EQ(reap_all(ring, burst), burst);
}

TEST(Ring, SqesAreZeroedEachTime) {
  Ring ring = small_ring(2, 8);
  for (int i = 0; i < 6; ++i) {
    io_uring_sqe* e = ring.sqe();
    EXPECT_EQ(e->flags, 0);
    EXPECT_EQ(e->len, 0u);
    EXPECT_EQ(e->addr3, 0u);
    io_uring_prep_nop(e);
    e->len = 0;
    e->addr3 = 0;
    e->user_data = ~0ull;
    EXPECT_EQ(ring.enter(1, 0, time_never_ns), 0);
    ring.for_each_cqe([](const io_uring_cqe&) {});
  }
}

TEST(Ring, AWaitEndsAtItsDeadline) {
  Ring ring = small_ring(4, 8);
  const std::uint64_t now = monotonic_ns();
  EXPECT_EQ(ring.enter(1, now, now + 2'000'000), 0);
  EXPECT_GE(monotonic_ns(), now + 2'000'000);
}

TEST(Ring, AClearedFileSlotIsNotUsedAnyMore) {
  Ring ring = small_ring(4, 8);
  Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(ring.set_file(2, null.get()).has_value());
  ASSERT_TRUE(ring.set_file(2, -1).has_value());
  io_uring_sqe* e = ring.sqe();
  io_uring_prep_write(e, 2, "x", 1, 0);
  e->flags |= IOSQE_FIXED_FILE;
  std::int32_t result = 0;
  EXPECT_EQ(ring.enter(1, 0, time_never_ns), 0);
  ring.for_each_cqe([&](const io_uring_cqe& cqe) { result = cqe.res; });
  EXPECT_EQ(result, -EBADF);
}

TEST(Ring, AFileSlotOutsideTheTableIsAnError) {
  Ring ring = small_ring(4, 8);
  EXPECT_FALSE(ring.set_file(4, 0).has_value());
}

// Kernels from 6.13 on release a slot by itself (io_uring's node rework); older ones do not.
TEST(Ring, SingleFileReleaseIsFoundByTrying) {
  utsname kernel{};
  ::uname(&kernel);
  int major = 0, minor = 0;
  ASSERT_EQ(std::sscanf(kernel.release, "%d.%d", &major, &minor), 2);
  EXPECT_EQ(ring_releases_single_files(), major * 1000 + minor >= 6013);
}

TEST(Ring, BigEntriesAreWholeAndInOrder) {
  auto made = Ring::make({.sq_entries = 4, .cq_entries = 8, .entry_size = EntrySize::big});
  ASSERT_TRUE(made.has_value()) << made.error().text();
  Ring ring = std::move(*made);
  std::uint64_t next = 0;
  for (std::uint64_t i = 0; i < 64; ++i) {
    io_uring_sqe* e = i % 2 == 0 ? ring.sqe() : ring.sqe_big();
    if (i % 2 != 0) {
      static constexpr io_uring_sqe zeroes[2] = {};
      ASSERT_EQ(std::memcmp(e, zeroes, sizeof zeroes), 0);
      std::memset(static_cast<void*>(e + 1), 0xff, sizeof *e);  // left for the next who gets it
    }
    io_uring_prep_nop(e);
    e->user_data = i;
    ASSERT_EQ(ring.enter(1, 0, time_never_ns), 0);
    ring.for_each_cqe([&](const io_uring_cqe& cqe) { EXPECT_EQ(cqe.user_data, next++); });
  }
  EXPECT_EQ(next, 64u);
}

}  // namespace
}  // namespace ublkd
