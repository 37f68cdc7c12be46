// What only the file target promises, on a real io_uring: sizes, allocation, time stamps, errors.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "tests/contract/target_cases.h"

namespace ublkd {
namespace {

constexpr std::uint32_t kib = 1024;
constexpr std::uint32_t mib = 1024 * 1024;

struct stat stat_of(const std::string& path) {
  struct stat st {};
  ::stat(path.c_str(), &st);
  return st;
}

class FileTest : public ::testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] std::unique_ptr<Rig> open(const Spec& spec, const OpenContext& context = {}) {
    auto target = spec.open(context);
    EXPECT_TRUE(target) << target.error().text();
    if (!target) return nullptr;
    auto rig = Rig::make(std::move(*target), FileNames::registered);
    EXPECT_TRUE(rig) << rig.error().text();
    return rig ? std::move(*rig) : nullptr;
  }
  void SetUp() override {
    const auto port = TestPort::make({}, FileNames::descriptors, Entries::small);
    if (!port) GTEST_SKIP() << port.error().text();
  }
  [[nodiscard]] Spec image(std::uint64_t bytes) { return file_spec(dir.file("image", bytes), GetParam()); }

  TempDir dir;
};

TEST_P(FileTest, ReadBehindATruncatedEndIsAnError) {
  auto rig = open(image(mib));
  ASSERT_NE(rig, nullptr);
  ASSERT_EQ(rig->run({Op::write, 0, mib, 0}, 4), 0);
  std::filesystem::resize_file(dir.path("image"), 512 * kib);
  EXPECT_EQ(rig->run({Op::read, 768 * kib, 4096, 0}), -EIO);
  EXPECT_EQ(rig->run({Op::read, 508 * kib, 8192, 0}), -EIO);
  EXPECT_EQ(rig->run({Op::read, 508 * kib, 4096, 0}), 0);
  EXPECT_EQ(rig->broken(), "");
}

TEST_P(FileTest, ReadOverAnEndInsideABlockIsAnError) {
  auto rig = open(image(mib));
  ASSERT_NE(rig, nullptr);
  std::filesystem::resize_file(dir.path("image"), 512 * kib + 100);
  EXPECT_EQ(rig->run({Op::read, 512 * kib, 4096, 0}), -EIO);
  EXPECT_EQ(rig->run({Op::read, 508 * kib, 4096, 0}), 0);
}

TEST_P(FileTest, RangeOperationsKeepTheSize) {
  auto rig = open(image(mib));
  ASSERT_NE(rig, nullptr);
  if (rig->geometry().discard_bytes_max == 0) GTEST_SKIP() << "no hole punching here";
  ASSERT_EQ(rig->run({Op::write, 0, mib, 0}, 1), 0);
  ASSERT_EQ(rig->run({Op::flush, 0, 0, 0}), 0);
  const auto blocks_before = stat_of(dir.path("image")).st_blocks;
  ASSERT_EQ(rig->run({Op::discard, mib - 64 * kib, 64 * kib, 0}), 0);
  EXPECT_EQ(stat_of(dir.path("image")).st_size, static_cast<off_t>(mib));
  EXPECT_LT(stat_of(dir.path("image")).st_blocks, blocks_before);
}

TEST_P(FileTest, NoUnmapKeepsTheAllocation) {
  auto rig = open(image(mib));
  ASSERT_NE(rig, nullptr);
  ASSERT_EQ(rig->run({Op::write, 0, mib, 0}, 1), 0);
  ASSERT_EQ(rig->run({Op::flush, 0, 0, 0}), 0);
  const auto blocks_before = stat_of(dir.path("image")).st_blocks;
  ASSERT_EQ(rig->run({Op::write_zeroes, 0, mib, request_flag::no_unmap}), 0);
  ASSERT_EQ(rig->run({Op::flush, 0, 0, 0}), 0);
  EXPECT_GE(stat_of(dir.path("image")).st_blocks, blocks_before);
  ASSERT_EQ(rig->run({Op::read, 0, mib, 0}), 0);
  EXPECT_TRUE(all_zero(rig->bytes()));
}

TEST_P(FileTest, BytesOutsideTheRangeStay) {
  auto rig = open(image(2 * mib));
  ASSERT_NE(rig, nullptr);
  ASSERT_EQ(rig->run({Op::write, 0, mib, 0}, 11), 0);
  ASSERT_EQ(rig->run({Op::write, mib, mib, 0}, 12), 0);
  rig.reset();
  auto part = open(file_spec(dir.path("image"), GetParam())
                       .set("offset", std::uint64_t{512 * kib})
                       .set("length", std::uint64_t{mib}));
  ASSERT_NE(part, nullptr);
  ASSERT_EQ(part->geometry().size_bytes, mib);
  ASSERT_EQ(part->run({Op::write_zeroes, 0, mib, 0}), 0);
  if (part->geometry().discard_bytes_max > 0) {
    ASSERT_EQ(part->run({Op::discard, 0, mib, 0}), 0);
  }
  part.reset();
  rig = open(file_spec(dir.path("image"), GetParam()));
  ASSERT_NE(rig, nullptr);
  ASSERT_EQ(rig->run({Op::read, 0, mib, 0}), 0);
  EXPECT_TRUE(filled(rig->bytes().first(512 * kib), 11));
  EXPECT_TRUE(all_zero(rig->bytes().subspan(512 * kib)));
  ASSERT_EQ(rig->run({Op::read, mib, mib, 0}), 0);
  EXPECT_TRUE(all_zero(rig->bytes().first(512 * kib)));
}

TEST_P(FileTest, ReadOnlyLeavesContentAndTimeStamps) {
  const std::string path = dir.file("image", mib);
  ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
  const struct stat before = stat_of(path);
  auto rig = open(file_spec(path, GetParam()), {.read_only = true});
  ASSERT_NE(rig, nullptr);
  EXPECT_TRUE(rig->geometry().read_only);
  EXPECT_EQ(rig->geometry().discard_bytes_max, 0u);
  EXPECT_FALSE(rig->geometry().volatile_cache);
  EXPECT_EQ(rig->run({Op::read, 0, mib, 0}), 0);
  const struct stat after = stat_of(path);
  EXPECT_EQ(std::memcmp(&before.st_mtim, &after.st_mtim, sizeof before.st_mtim), 0);
  EXPECT_EQ(std::memcmp(&before.st_atim, &after.st_atim, sizeof before.st_atim), 0);
}

TEST_P(FileTest, SizeIsRoundedDownAndTheLastBlockIsServed) {
  auto small = open(file_spec(dir.file("odd", mib + 512 + 100), GetParam()));
  ASSERT_NE(small, nullptr);
  if (small->geometry().logical_block_bytes == 512) {
    EXPECT_EQ(small->geometry().size_bytes, mib + 512u);
    EXPECT_EQ(small->run({Op::read, mib, 512, 0}), 0);
  }
  small.reset();
  auto large = open(file_spec(dir.path("odd"), GetParam()), {.logical_block_bytes = 4096});
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(large->geometry().size_bytes, mib);
}

// A tmpfs of 1 MiB under the test's directory.
class SmallMount {
 public:
  explicit SmallMount(std::string path) : path_(std::move(path)) {
    std::filesystem::create_directory(path_);
    mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=1M") == 0;
  }
  SmallMount(const SmallMount&) = delete;
  SmallMount& operator=(const SmallMount&) = delete;
  ~SmallMount() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  [[nodiscard]] bool mounted() const { return mounted_; }

 private:
  std::string path_;
  bool mounted_ = false;
};

TEST_P(FileTest, FullFileSystemFailsTheWriteAndKeepsWhatWasAcknowledged) {
  SmallMount mount(dir.path("small"));
  if (!mount.mounted()) GTEST_SKIP() << "cannot mount a tmpfs: " << std::strerror(errno);
  auto rig = open(file_spec(dir.file("small/image", 4 * mib), GetParam()));
  ASSERT_NE(rig, nullptr);
  std::vector<std::uint64_t> written;
  std::uint32_t refused = 0;
  for (std::uint64_t i = 0; i < 32; ++i) {
    const std::int32_t error = rig->run({Op::write, i * 64 * kib, 64 * kib, 0}, i);
    if (error == 0) written.push_back(i);
    if (error != 0) {
      EXPECT_EQ(error, -ENOSPC);
      ++refused;
    }
  }
  EXPECT_GE(written.size(), 12u);
  EXPECT_GE(refused, 16u);
  for (const std::uint64_t i : written) {
    ASSERT_EQ(rig->run({Op::read, i * 64 * kib, 64 * kib, 0}), 0);
    EXPECT_TRUE(filled(rig->bytes(), i));
  }
  ASSERT_EQ(rig->run({Op::discard, 0, 512 * kib, 0}), 0);
  EXPECT_EQ(rig->run({Op::write, 0, 64 * kib, 0}, 99), 0);  // works again, without a restart
}

INSTANTIATE_TEST_SUITE_P(Io, FileTest, ::testing::Values("auto", "buffered"),
                         [](const auto& one) { return one.param; });

TEST(DelayTest, AbortEndsAHeldRequestLongBeforeItsTime) {
  auto target = Spec("delay")
                    .target(Spec("null").set("size", case_size_bytes))
                    .set("time", std::uint64_t{3'600'000'000'000})
                    .open();
  ASSERT_TRUE(target) << target.error().text();
  auto rig = Rig::make(std::move(*target), FileNames::descriptors);
  if (!rig) GTEST_SKIP() << rig.error().text();
  Io* io = (*rig)->prepare({Op::read, 0, 4096, 0});
  (*rig)->start(*io);
  (*rig)->send();
  (*rig)->abort(*io);
  EXPECT_EQ((*rig)->drain().size(), 1u);
  EXPECT_EQ(io->rq.error, -EIO);
}

}  // namespace
}  // namespace ublkd
