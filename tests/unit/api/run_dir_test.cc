#include "api/run_dir.h"

#include <sys/stat.h>

#include <fstream>

#include "api_fixture.h"

namespace ublkd::api {
namespace {

TEST(RunDirTest, IsMadeWhenAbsentAndTakenWhenThere) {
  const TempDir dir;
  ASSERT_TRUE(RunDir::create(dir / "run"));
  const auto again = RunDir::create(dir / "run");
  ASSERT_TRUE(again);
  EXPECT_EQ(again->socket_path(), dir / "run/ublkd.sock");
}

TEST(RunDirTest, ErrorNamesThePath) {
  const TempDir dir;
  const auto no_parent = RunDir::create(dir / "a/b");
  ASSERT_FALSE(no_parent);
  EXPECT_NE(no_parent.error().text().find(dir / "a/b"), std::string::npos);
  std::ofstream(dir / "file");
  EXPECT_FALSE(RunDir::create(dir / "file"));
  EXPECT_FALSE(RunDir::create("relative"));
}

TEST(RunDirTest, DirectoryOthersCanWriteIsRefused) {
  const TempDir dir;
  ASSERT_EQ(::chmod(dir.path().c_str(), 0777), 0);
  const auto open_to_all = RunDir::create(dir.path());
  ASSERT_FALSE(open_to_all);
  EXPECT_EQ(open_to_all.error().kind, ErrorKind::permission);
}

TEST(InstanceLockTest, SecondInstanceIsRefusedWithThePidOfTheFirst) {
  const TempDir dir;
  const auto run_dir = RunDir::create(dir.path());
  ASSERT_TRUE(run_dir);
  {
    const auto first = InstanceLock::take(*run_dir);
    ASSERT_TRUE(first);
    const auto second = InstanceLock::take(*run_dir);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().kind, ErrorKind::busy);
    const std::string start = "ublkd pid " + std::to_string(::getpid()) + " already serves " + dir.path();
    EXPECT_EQ(second.error().text().substr(0, start.size()), start);
  }
  EXPECT_TRUE(InstanceLock::take(*run_dir));
}

TEST(InstanceLockTest, LockFileThatIsASymlinkIsRefused) {
  const TempDir dir;
  const auto run_dir = RunDir::create(dir.path());
  ASSERT_TRUE(run_dir);
  std::filesystem::create_symlink(dir / "elsewhere", run_dir->lock_path());
  EXPECT_FALSE(InstanceLock::take(*run_dir));
  EXPECT_FALSE(std::filesystem::exists(dir / "elsewhere"));
}

}  // namespace
}  // namespace ublkd::api
