// Opening a file target: what is refused and how, what is created, who else may use it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <filesystem>

#include "targets/file/file_target.h"
#include "tests/fakes/fake_claims.h"
#include "tests/fakes/temp_dir.h"

namespace ublkd {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t mib = 1024 * 1024;

class FileOpenTest : public ::testing::Test {
 protected:
  using Opened = Result<std::unique_ptr<Target>>;

  Opened open(const std::string& path, const OpenContext& context = {}) {
    options.set("path", path);
    return file_target_type().open(options, context);
  }
  Opened open_as(const std::string& name, const std::string& path, std::uint64_t offset = 0,
                 std::uint64_t length = mib) {
    options.set("offset", offset);
    options.set("length", length);
    OpenContext context;
    context.device_name = name;
    context.claims = &claims;
    context.read_only = read_only;
    return open(path, context);
  }
  static void expect_error(const Opened& opened, ErrorKind kind, const std::string& part) {
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().kind, kind) << opened.error().text();
    EXPECT_NE(opened.error().text().find(part), std::string::npos) << opened.error().text();
  }

  TempDir dir;
  FakeClaims claims;
  OptionValues options;
  bool read_only = false;
};

TEST_F(FileOpenTest, MissingFileIsNamedWithWhatToDo) {
  expect_error(open(dir.path("none")), ErrorKind::not_found, "create: sparse");
  expect_error(open(dir.path("none")), ErrorKind::not_found, dir.path("none"));
}

TEST_F(FileOpenTest, OtherKindsAreRefusedByName) {
  ASSERT_EQ(::mkfifo(dir.path("fifo").c_str(), 0600), 0);
  expect_error(open(dir.path("fifo")), ErrorKind::invalid, "a fifo");
  expect_error(open(dir.path(".")), ErrorKind::invalid, "a directory");
  expect_error(open("/dev/null"), ErrorKind::invalid, "a character device");
}

TEST_F(FileOpenTest, SparseFileIsCreated) {
  options.set("create", std::string("sparse"));
  options.set("size", 64 * mib);
  const auto target = open(dir.path("new"));
  ASSERT_TRUE(target) << target.error().text();
  EXPECT_EQ((*target)->geometry().size_bytes, 64 * mib);
  struct stat st {};
  ASSERT_EQ(::stat(dir.path("new").c_str(), &st), 0);
  EXPECT_LT(st.st_blocks, 128);
}

TEST_F(FileOpenTest, PreallocatedFileHasItsBlocks) {
  options.set("create", std::string("preallocate"));
  options.set("size", mib);
  const auto target = open(dir.path("new"));
  if (!target && target.error().kind == ErrorKind::unsupported) GTEST_SKIP() << target.error().text();
  ASSERT_TRUE(target) << target.error().text();
  struct stat st {};
  ASSERT_EQ(::stat(dir.path("new").c_str(), &st), 0);
  EXPECT_GE(st.st_blocks, static_cast<blkcnt_t>(mib / 512));
}

TEST_F(FileOpenTest, PreallocationThatDoesNotFitLeavesNoFile) {
  options.set("create", std::string("preallocate"));
  options.set("size", std::uint64_t{1} << 43);  // 8 TiB
  const auto target = open(dir.path("new"));
  ASSERT_FALSE(target);
  EXPECT_TRUE(target.error().kind == ErrorKind::no_space || target.error().kind == ErrorKind::io ||
              target.error().kind == ErrorKind::unsupported)
      << target.error().text();
  EXPECT_FALSE(fs::exists(dir.path("new")));
}

TEST_F(FileOpenTest, CreatedFileIsRemovedWhenOpenFailsLater) {
  options.set("create", std::string("sparse"));
  options.set("size", mib);
  options.set("offset", 2 * mib);
  expect_error(open(dir.path("new")), ErrorKind::invalid, "less than one block");
  EXPECT_FALSE(fs::exists(dir.path("new")));
}

TEST_F(FileOpenTest, CreatedFileIsRemovedWhenItsDeviceNeverServes) {
  options.set("create", std::string("sparse"));
  options.set("size", mib);
  EXPECT_TRUE(open(dir.path("new")));
  EXPECT_FALSE(fs::exists(dir.path("new")));
}

TEST_F(FileOpenTest, ExistingFileIsUsedAsItIsAndNeverRemoved) {
  options.set("create", std::string("preallocate"));
  const std::string path = dir.file("image", mib);
  EXPECT_TRUE(open(path));
  options.set("size", 2 * mib);
  expect_error(open(path), ErrorKind::invalid, "size says 2097152");
  EXPECT_EQ(fs::file_size(path), mib);
}

TEST_F(FileOpenTest, CreateNeedsASizeAndAWritableDevice) {
  options.set("create", std::string("sparse"));
  expect_error(open(dir.path("new")), ErrorKind::invalid, "size is missing");
  options.set("size", mib);
  expect_error(open(dir.path("new"), {.read_only = true}), ErrorKind::invalid, "read_only");
  EXPECT_FALSE(fs::exists(dir.path("new")));
}

TEST_F(FileOpenTest, OffsetOffTheGridIsRefused) {
  options.set("offset", std::uint64_t{2048});
  expect_error(open(dir.file("image", mib), {.logical_block_bytes = 4096}), ErrorKind::invalid,
               "no multiple of the 4096 B");
}

TEST_F(FileOpenTest, RangeBeyondTheBackingIsRefused) {
  options.set("offset", std::uint64_t{4096});
  options.set("length", mib);
  expect_error(open(dir.file("image", mib)), ErrorKind::invalid, "beyond its 1048576 bytes");
}

TEST_F(FileOpenTest, LessThanABlockIsRefused) {
  expect_error(open(dir.file("image", 511)), ErrorKind::invalid, "less than one block");
  expect_error(open(dir.file("empty", 0)), ErrorKind::invalid, "less than one block");
}

TEST_F(FileOpenTest, OffsetLowersThePhysicalBlockToItsGrid) {
  options.set("io", std::string("buffered"));
  options.set("offset", std::uint64_t{1024});
  const auto target = open(dir.file("image", mib));
  ASSERT_TRUE(target);
  EXPECT_EQ((*target)->geometry().physical_block_bytes, 1024u);
}

TEST_F(FileOpenTest, SecondWritableUseIsRefusedByIdentity) {
  const std::string path = dir.file("image", mib);
  fs::create_symlink(path, dir.path("link"));
  fs::create_hard_link(path, dir.path("hard"));
  const auto first = open_as("first", path);
  ASSERT_TRUE(first) << first.error().text();
  for (const char* name : {"image", "link", "hard"})
    expect_error(open_as("second", dir.path(name)), ErrorKind::busy, "device first");
  read_only = true;
  expect_error(open_as("second", path), ErrorKind::busy, "device first");
}

TEST_F(FileOpenTest, ReadOnlyUsesAndDisjointRangesShare) {
  const std::string path = dir.file("image", 2 * mib);
  {
    const auto low = open_as("low", path, 0, mib);
    const auto high = open_as("high", path, mib, mib);
    EXPECT_TRUE(low);
    EXPECT_TRUE(high);
  }
  read_only = true;
  const auto a = open_as("a", path);
  const auto b = open_as("b", path);
  EXPECT_TRUE(a);
  EXPECT_TRUE(b);
}

TEST_F(FileOpenTest, RangeLockedByAnotherProcessIsBusy) {
  const std::string path = dir.file("image", mib);
  Fd other(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct flock range {};
  range.l_type = F_RDLCK;
  ASSERT_EQ(::fcntl(other.get(), F_OFD_SETLK, &range), 0);
  expect_error(open(path), ErrorKind::busy, "another process");
  EXPECT_TRUE(open(path, {.read_only = true}));
  other.reset();
  EXPECT_TRUE(open(path));
}

TEST_F(FileOpenTest, BlocksOfALoopDeviceAreRespected) {
  LoopDevice loop(dir.file("disk", 4 * mib), 4096);
  if (loop.path().empty()) GTEST_SKIP() << loop.why();
  {
    const auto target = open(loop.path());
    ASSERT_TRUE(target) << target.error().text();
    EXPECT_EQ((*target)->geometry().logical_block_bytes, 4096u);
    EXPECT_EQ((*target)->geometry().size_bytes, 4 * mib);
    expect_error(open(loop.path()), ErrorKind::busy, "mounted, or in use");
  }
  expect_error(open(loop.path(), {.logical_block_bytes = 512}), ErrorKind::invalid,
               "blocks of 4096 bytes only");
  options.set("io", std::string("buffered"));
  const auto buffered = open(loop.path());
  ASSERT_TRUE(buffered) << buffered.error().text();
  EXPECT_EQ((*buffered)->geometry().logical_block_bytes, 4096u);
}

TEST_F(FileOpenTest, TwoDevicesOnOneBlockDeviceAreRefusedNamingTheFirst) {
  LoopDevice loop(dir.file("disk", 4 * mib), 512);
  if (loop.path().empty()) GTEST_SKIP() << loop.why();
  fs::create_symlink(loop.path(), dir.path("link"));
  const auto first = open_as("first", loop.path(), 0, mib);
  ASSERT_TRUE(first) << first.error().text();
  expect_error(open_as("second", dir.path("link"), 2 * mib, mib), ErrorKind::busy, "device first");
}

TEST_F(FileOpenTest, FactsSayHowTheBackingIsUsed) {
  options.set("io", std::string("buffered"));
  const auto target = open(dir.file("image", mib));
  ASSERT_TRUE(target);
  const auto facts = (*target)->facts();
  const auto has = [&](const char* key, const std::string& value) {
    return std::find(facts.begin(), facts.end(), std::pair<std::string, std::string>(key, value)) !=
           facts.end();
  };
  EXPECT_TRUE(has("io", "buffered"));
  EXPECT_TRUE(has("path", dir.path("image")));
  EXPECT_TRUE(has("locked", "yes"));
}

}  // namespace
}  // namespace ublkd
