// The contract suite: what every target must do, over all of them, on a real io_uring.
#include <gtest/gtest.h>

#include <cerrno>
#include <random>

#include "tests/contract/target_cases.h"

namespace ublkd {
namespace {

// Containers and sysctl kernel.io_uring_disabled refuse the ring itself.
bool no_io_uring(const Error& error) {
  return error.kind == ErrorKind::permission || error.kind == ErrorKind::unsupported;
}

class ContractTest : public ::testing::TestWithParam<TargetCase> {
 protected:
  void SetUp() override {
    auto target = GetParam().open(ground);
    if (!ground.skip.empty()) GTEST_SKIP() << ground.skip;
    ASSERT_TRUE(target) << target.error().text();
    auto made = Rig::make(std::move(*target), GetParam().names, GetParam().entries);
    if (!made && no_io_uring(made.error())) GTEST_SKIP() << made.error().text();
    ASSERT_TRUE(made) << made.error().text();
    rig = std::move(*made);
    block = rig->geometry().logical_block_bytes;
  }
  void TearDown() override {
    if (rig != nullptr) {
      EXPECT_EQ(rig->broken(), "");
    }
  }
  [[nodiscard]] bool keeps() const { return GetParam().content != Content::zeroes; }
  // What a read of bytes written with seed must give.
  [[nodiscard]] bool right(std::span<const std::byte> bytes, std::uint64_t seed) const {
    return keeps() ? filled(bytes, seed) : all_zero(bytes);
  }
  [[nodiscard]] std::int32_t write(std::uint64_t offset, std::uint32_t length, std::uint64_t seed,
                                   std::uint8_t flags = 0) {
    return rig->run({Op::write, offset, length, flags}, seed);
  }
  [[nodiscard]] std::int32_t read(std::uint64_t offset, std::uint32_t length) {
    return rig->run({Op::read, offset, length, 0});
  }

  Ground ground;  // before rig: the target goes first
  std::unique_ptr<Rig> rig;
  std::uint32_t block = 512;
};

TEST_P(ContractTest, GeometryIsWhatTheEngineMayAdvertise) {
  const Geometry& g = rig->geometry();
  EXPECT_EQ(g.size_bytes, case_size_bytes);
  EXPECT_EQ(g.size_bytes % g.logical_block_bytes, 0u);
  EXPECT_GE(g.logical_block_bytes, 512u);
  EXPECT_LE(g.logical_block_bytes, 4096u);
  EXPECT_GE(g.physical_block_bytes, g.logical_block_bytes);
  EXPECT_GE(g.io_min_bytes, g.physical_block_bytes);
  EXPECT_GE(g.io_bytes_max, 4096u);
  EXPECT_EQ(g.io_bytes_max % 4096, 0u);
  for (const std::uint64_t max : {g.discard_bytes_max, g.write_zeroes_bytes_max}) {
    EXPECT_LT(max, std::uint64_t{1} << 32);
    EXPECT_EQ(max % g.logical_block_bytes, 0u);
  }
  EXPECT_EQ(g.discard_bytes_max > 0, g.discard_granularity_bytes > 0);
}

TEST_P(ContractTest, ReadsWhatWasWrittenInAllSizes) {
  std::uint64_t seed = 1;
  for (std::uint32_t length = block; length <= 1024 * 1024; length *= 2) {
    for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{block}, std::uint64_t{3} * block}) {
      ASSERT_EQ(write(offset, length, ++seed), 0) << length;
      ASSERT_EQ(read(offset, length), 0) << length;
      EXPECT_TRUE(right(rig->bytes(), seed)) << length << " bytes at " << offset;
    }
  }
}

TEST_P(ContractTest, LastBlockIsServed) {
  const std::uint64_t last = rig->geometry().size_bytes - block;
  ASSERT_EQ(write(last, block, 5), 0);
  ASSERT_EQ(read(last, block), 0);
  EXPECT_TRUE(right(rig->bytes(), 5));
}

TEST_P(ContractTest, NewDeviceReadsAsZeroes) {
  ASSERT_EQ(read(0, 1024 * 1024), 0);
  EXPECT_TRUE(all_zero(rig->bytes()));
}

TEST_P(ContractTest, FuaWritesAreWritten) {
  ASSERT_EQ(write(8192, 8192, 9, request_flag::fua), 0);
  ASSERT_EQ(read(8192, 8192), 0);
  EXPECT_TRUE(right(rig->bytes(), 9));
}

TEST_P(ContractTest, MatchesTheModel) {
  const char* fixed = std::getenv("UBLKD_SEED");
  const std::uint64_t seed = fixed != nullptr ? std::strtoull(fixed, nullptr, 0) : std::random_device{}();
  std::cout << "seed " << seed << "\n";
  EXPECT_EQ(check_model(*rig, GetParam().content, seed, 600), "") << "UBLKD_SEED=" << seed << " repeats it";
}

TEST_P(ContractTest, ManyRequestsAtOnce) {
  for (int round = 0; round < 4; ++round) {
    for (std::uint32_t i = 0; i < Rig::ios_max; ++i)
      rig->start(*rig->prepare({Op::write, i * std::uint64_t{16384}, 16384, 0}, 100 + i));
    for (Io* io : rig->drain()) ASSERT_EQ(io->rq.error, 0);
    for (std::uint32_t i = 0; i < Rig::ios_max; ++i)
      rig->start(*rig->prepare({Op::read, i * std::uint64_t{16384}, 16384, 0}));
    const auto done = rig->drain();
    ASSERT_EQ(done.size(), Rig::ios_max);
    for (Io* io : done) {
      ASSERT_EQ(io->rq.error, 0);
      EXPECT_TRUE(right(io->data(), 100 + io->rq.offset_bytes / 16384));
    }
  }
}

TEST_P(ContractTest, ThousandTimesWriteAndFlush) {
  for (std::uint64_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(write((i % 64) * 4096, 4096, i), 0);
    ASSERT_EQ(rig->run({Op::flush, 0, 0, 0}), 0);
  }
}

TEST_P(ContractTest, ThirtyTwoFlushesAtOnce) {
  ASSERT_EQ(write(0, 4096, 1), 0);
  for (int i = 0; i < 32; ++i) rig->start(*rig->prepare({Op::flush, 0, 0, 0}));
  const auto done = rig->drain();
  EXPECT_EQ(done.size(), 32u);
  for (Io* io : done) EXPECT_EQ(io->rq.error, 0);
}

TEST_P(ContractTest, RangeOperationsTouchExactlyTheirRange) {
  const std::uint64_t mib = 1024 * 1024;
  for (const Op op : {Op::discard, Op::write_zeroes}) {
    if (op == Op::discard && rig->geometry().discard_bytes_max == 0) continue;
    ASSERT_EQ(write(0, static_cast<std::uint32_t>(mib), 3), 0);
    ASSERT_EQ(read(0, static_cast<std::uint32_t>(mib)), 0);
    std::vector<std::byte> expected(rig->bytes().begin(), rig->bytes().end());
    const std::pair<std::uint64_t, std::uint32_t> ranges[] = {
        {0, 65536}, {mib / 2, 4096}, {mib - 4096, 4096}};
    for (const auto& [offset, length] : ranges) {
      ASSERT_EQ(rig->run({op, offset, length, 0}), 0) << op_name(op);
      std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(offset), length, std::byte{0});
    }
    ASSERT_EQ(read(0, static_cast<std::uint32_t>(mib)), 0);
    std::vector<std::byte> got(rig->bytes().begin(), rig->bytes().end());
    if (op == Op::discard && GetParam().content == Content::kept_discard_any)
      for (const auto& [offset, length] : ranges)
        std::fill_n(got.begin() + static_cast<std::ptrdiff_t>(offset), length, std::byte{0});
    EXPECT_TRUE(got == expected) << op_name(op);
  }
}

TEST_P(ContractTest, WholeDeviceRangeOperationsSucceed) {
  const auto all = static_cast<std::uint32_t>(rig->geometry().size_bytes);
  if (rig->geometry().discard_bytes_max > 0) {
    EXPECT_EQ(rig->run({Op::discard, 0, all, 0}), 0);
  }
  EXPECT_EQ(rig->run({Op::write_zeroes, 0, all, request_flag::no_unmap}), 0);
  EXPECT_EQ(rig->run({Op::write_zeroes, 0, all, request_flag::fua}), 0);
  ASSERT_EQ(read(0, 1024 * 1024), 0);
  EXPECT_TRUE(all_zero(rig->bytes()));
}

TEST_P(ContractTest, OneBlockIsZeroed) {
  for (const std::uint8_t flags : {std::uint8_t{0}, request_flag::no_unmap}) {
    ASSERT_EQ(write(0, 3 * block, 7), 0);
    ASSERT_EQ(read(0, 3 * block), 0);
    std::vector<std::byte> expected(rig->bytes().begin(), rig->bytes().end());
    std::fill_n(expected.begin() + block, block, std::byte{0});
    ASSERT_EQ(rig->run({Op::write_zeroes, block, block, flags}), 0);
    ASSERT_EQ(read(0, 3 * block), 0);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), rig->bytes().begin()));
  }
}

TEST_P(ContractTest, AbortedRequestsEndOnceAndTheDeviceGoesOn) {
  constexpr std::uint32_t count = 48;
  for (int round = 0; round < 8; ++round) {
    std::vector<Io*> ios;
    for (std::uint32_t i = 0; i < count; ++i) {
      const Op op = std::array{Op::write, Op::read, Op::flush, Op::write_zeroes}[i % 4];
      Io* io = rig->prepare({op, i * std::uint64_t{65536}, op == Op::flush ? 0 : 65536u, 0}, i);
      ios.push_back(io);
      rig->start(*io);
    }
    std::size_t ended = rig->pump().size();
    for (Io* io : ios) rig->abort(*io);
    ended += rig->drain().size();
    EXPECT_EQ(ended, count);
    for (Io* io : ios) EXPECT_TRUE(io->rq.error == 0 || io->rq.error == -EIO) << io->rq.error;
  }
  ASSERT_EQ(write(0, 65536, 77), 0);
  ASSERT_EQ(read(0, 65536), 0);
  EXPECT_TRUE(right(rig->bytes(), 77));
}

INSTANTIATE_TEST_SUITE_P(AllTargets, ContractTest, ::testing::ValuesIn(target_cases()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace ublkd
