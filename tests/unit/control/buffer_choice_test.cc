#include "control/buffer_choice.h"

#include <gtest/gtest.h>

#include "abi/features.h"
#include "tests/unit/control/build_set.h"

namespace ublkd {
namespace {

constexpr std::uint64_t kernel_has_it = abi::feature_bit(abi::Feature::auto_buf_reg);

Geometry drive() {
  Geometry g;
  g.io_bytes_max = 1 << 20;
  g.zero_copy = true;
  g.virt_boundary_mask = 4095;
  g.segments_max = 127;
  return g;
}

DeviceConfig device(BufferMode mode, std::uint32_t depth = 32) {
  DeviceConfig d;
  d.name = "d";
  d.depth = depth;
  d.buffer_mode = mode;
  return d;
}

class BufferChoiceTest : public testing::Test {
 protected:
  void SetUp() override {
    TagSetConfig config;
    config.name = "test";
    config.hw_queues = 2;
    config.depth = 16;
    config.slots_total_max = 64;
    Built built = build_set(config, {.register_ublkc = true});
    ASSERT_TRUE(built.set.has_value()) << built.set.error().text();
    set_ = std::move(*built.set);
  }
  Result<BufferChoice> choose(const DeviceConfig& d, const Geometry& g = drive(),
                              std::uint64_t features = kernel_has_it) {
    return BufferChoice::make(d, g, *set_, features);
  }
  std::unique_ptr<TagSet> set_;
};

TEST_F(BufferChoiceTest, AutoIsZeroCopyWhereAllCan) {
  auto choice = choose(device(BufferMode::automatic));
  ASSERT_TRUE(choice.has_value());
  EXPECT_TRUE(choice->zero_copy());
  EXPECT_TRUE(choice->why().empty());
  const Geometry g = choice->fit(drive(), 0);
  EXPECT_EQ(g.io_bytes_max, 1u << 20) << "no memory of ours: no reason for less";
  EXPECT_EQ(g.virt_boundary_mask, 4095u);
  EXPECT_EQ(g.segments_max, 127u);
}

TEST_F(BufferChoiceTest, CopyModeKeepsMemorySmallAndSplitsForNobody) {
  auto choice = choose(device(BufferMode::copy));
  ASSERT_TRUE(choice.has_value());
  EXPECT_FALSE(choice->zero_copy());
  const Geometry g = choice->fit(drive(), 0);
  EXPECT_EQ(g.io_bytes_max, 512u * 1024);
  EXPECT_EQ(g.virt_boundary_mask, 0u);
  EXPECT_EQ(g.segments_max, 0u);
  EXPECT_EQ(choice->fit(drive(), 64 * 1024).io_bytes_max, 64u * 1024);
}

TEST_F(BufferChoiceTest, AutoFallsBackAndSaysWhy) {
  auto old_kernel = choose(device(BufferMode::automatic), drive(), 0);
  ASSERT_TRUE(old_kernel.has_value());
  EXPECT_FALSE(old_kernel->zero_copy());
  EXPECT_NE(old_kernel->why().find("AUTO_BUF_REG"), std::string::npos);
  Geometry polled = drive();
  polled.zero_copy = false;
  polled.polled = true;
  EXPECT_NE(choose(device(BufferMode::automatic), polled)->why().find("poll"), std::string::npos);
}

TEST_F(BufferChoiceTest, ZeroCopyThatCannotBeIsRefused) {
  auto refused = choose(device(BufferMode::zero_copy), drive(), 0);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::unsupported);
  EXPECT_NE(refused.error().text().find("buffer_mode"), std::string::npos);
}

TEST_F(BufferChoiceTest, TheTableOfBuffersIsSharedAndGivenBack) {
  {
    auto first = choose(device(BufferMode::automatic, 40));
    auto second = choose(device(BufferMode::automatic, 40));
    EXPECT_TRUE(first->zero_copy());
    EXPECT_FALSE(second->zero_copy());
    EXPECT_NE(second->why().find("40"), std::string::npos) << second->why();
    auto small = choose(device(BufferMode::automatic, 24));
    EXPECT_TRUE(small->zero_copy()) << "what the one that did not fit had taken of the first queue is back";
    EXPECT_EQ(small->first_buffer(0), 40u);
    EXPECT_EQ(small->first_buffer(1), 40u);
  }
  EXPECT_TRUE(choose(device(BufferMode::automatic, 64))->zero_copy());
}

}  // namespace
}  // namespace ublkd
