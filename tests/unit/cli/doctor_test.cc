// Checks on a made-up machine.
#include "cli/doctor.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "control/known_kernels.h"

namespace ublkd::cli {
namespace {

namespace fs = std::filesystem;

// A machine on which everything is fine; each test breaks one thing.
class DoctorTest : public ::testing::Test {
 protected:
  DoctorTest() {
    char name[] = "/tmp/ublkd-doctor-XXXXXX";
    input.root = ::mkdtemp(name);
    input.release = "6.12.9";
    input.memlock_bytes = ~std::uint64_t{0};
    input.open_files = 65536;
    input.try_ring = [] { return 0; };
    input.try_ring_sqe128 = [] { return 0; };
    input.try_open = [](const std::string&) { return 0; };
    input.try_write = [](const std::string&) { return 0; };
    input.features = [] { return Result<std::uint64_t>(0xff); };
    input.ping = [] { return Result<nlohmann::json>(nlohmann::json::object()); };
    file("/proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff\n");
    file("/proc/sys/kernel/io_uring_disabled", "0\n");
    file("/sys/module/ublk_drv/parameters/ublks_max", "64\n");
    file("/dev/ublk-control", "");
    file("/lib/modules/6.12.9/modules.dep", "kernel/drivers/block/ublk_drv.ko.xz:\n");
    file("/run/udev/control", "");
    file("/etc/udev/rules.d/60-ublk.rules", "");
  }
  ~DoctorTest() override { fs::remove_all(input.root); }

  void file(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(input.root + path).parent_path());
    std::ofstream(input.root + path) << text;
  }
  void gone(const std::string& path) const { fs::remove_all(input.root + path); }

  [[nodiscard]] Check check(const std::string& name) const {
    for (const Check& c : run_checks(input))
      if (c.name == name) return c;
    ADD_FAILURE() << "no check " << name;
    return {};
  }
  void expect(const std::string& name, Verdict verdict, const std::string& part) const {
    const Check c = check(name);
    EXPECT_EQ(c.verdict, verdict) << c.found;
    EXPECT_NE((c.found + "|" + c.mend).find(part), std::string::npos) << c.found << "|" << c.mend;
    EXPECT_EQ(c.mend.empty(), verdict == Verdict::ok);
  }

  DoctorInput input;
};

TEST_F(DoctorTest, AllIsWell) {
  for (const Check& c : run_checks(input)) EXPECT_EQ(c.verdict, Verdict::ok) << c.name << ": " << c.found;
  EXPECT_FALSE(any_failed(run_checks(input)));
}

TEST_F(DoctorTest, MissingCapability) {
  file("/proc/self/status", "Name:\tx\nCapEff:\t0000000000000000\n");
  expect("privileges", Verdict::fail, "run as root");
}

TEST_F(DoctorTest, IoUringSwitchedOffBySysctl) {
  file("/proc/sys/kernel/io_uring_disabled", "2\n");
  input.try_ring = [] { return EPERM; };
  expect("io_uring", Verdict::fail, "kernel.io_uring_disabled=2");
  expect("io_uring", Verdict::fail, "sysctl kernel.io_uring_disabled=0");
}

TEST_F(DoctorTest, IoUringRefusedBySandbox) {
  input.try_ring = [] { return EPERM; };
  expect("io_uring", Verdict::fail, "sandbox");
  input.try_ring = [] { return EACCES; };
  expect("io_uring", Verdict::fail, "sandbox");
}

TEST_F(DoctorTest, IoUringAbsent) {
  input.try_ring = [] { return ENOSYS; };
  expect("io_uring", Verdict::fail, "CONFIG_IO_URING");
}

TEST_F(DoctorTest, OldKernelWithoutLargeEntries) {
  input.try_ring_sqe128 = [] { return EINVAL; };
  expect("128-byte ring entries", Verdict::fail, "5.19");
}

TEST_F(DoctorTest, DriverLoadedOrBuiltIn) {
  expect("driver ublk_drv", Verdict::ok, "loaded");
  file("/lib/modules/6.12.9/modules.builtin", "kernel/drivers/block/ublk_drv.ko\n");
  expect("driver ublk_drv", Verdict::ok, "built into");
}

TEST_F(DoctorTest, DriverThereWithoutNode) {
  gone("/dev/ublk-control");
  expect("driver ublk_drv", Verdict::fail, "udevadm");
}

TEST_F(DoctorTest, DriverNotLoaded) {
  gone("/dev/ublk-control");
  gone("/sys/module/ublk_drv");
  expect("driver ublk_drv", Verdict::fail, "modprobe ublk_drv");
}

TEST_F(DoctorTest, DriverNotInstalled) {
  gone("/dev/ublk-control");
  gone("/sys/module/ublk_drv");
  file("/lib/modules/6.12.9/modules.dep", "kernel/drivers/block/loop.ko:\n");
  expect("driver ublk_drv", Verdict::fail, "linux-modules-extra-6.12.9");
}

TEST_F(DoctorTest, NoModulesOfTheRunningKernel) {
  gone("/dev/ublk-control");
  gone("/sys/module/ublk_drv");
  gone("/lib/modules");
  expect("driver ublk_drv", Verdict::fail, "/lib/modules/6.12.9");
}

TEST_F(DoctorTest, ControlNodeRefusedNamesPathAndMode) {
  fs::permissions(input.root + "/dev/ublk-control", fs::perms(0600));
  input.try_open = [](const std::string&) { return EACCES; };
  expect("control node", Verdict::fail, "/dev/ublk-control: Permission denied, mode 0600");
}

TEST_F(DoctorTest, FeaturesTooOldOrUnknown) {
  input.features = [] { return Result<std::uint64_t>(0x1f); };
  expect("kernel features", Verdict::fail, "6.4");
  input.features = []() -> Result<std::uint64_t> { return fail_errno(ENOENT, "open", "/dev/ublk-control"); };
  expect("kernel features", Verdict::fail, "/dev/ublk-control");
}

TEST_F(DoctorTest, AllDevicesInUse) {
  file("/sys/module/ublk_drv/parameters/ublks_max", "2\n");
  fs::create_directories(input.root + "/sys/class/ublk-char/ublkc0");
  expect("device limit", Verdict::ok, "1 ublk devices");
  fs::create_directories(input.root + "/sys/class/ublk-char/ublkc1");
  expect("device limit", Verdict::warn, "ublks_max");
}

TEST_F(DoctorTest, SmallLimitsAreWarnedOfWithTheUnitSetting) {
  input.memlock_bytes = 8 << 20;
  expect("memlock limit", Verdict::ok, "CAP_IPC_LOCK");
  file("/proc/self/status", "Name:\tx\nCapEff:\t0000000000200000\n");
  expect("memlock limit", Verdict::warn, "LimitMEMLOCK");
  input.open_files = 128;
  expect("open files limit", Verdict::warn, "LimitNOFILE");
}

TEST_F(DoctorTest, Udev) {
  gone("/run/udev");
  expect("udev", Verdict::warn, "systemd-udevd");
  gone("/etc/udev");
  expect("udev rules", Verdict::warn, "rules");
  file("/usr/lib/udev/rules.d/60-persistent-storage.rules", "KERNEL!=\"sd*|ublkb*\"\n");
  expect("udev rules", Verdict::ok, "60-persistent-storage.rules");
}

TEST_F(DoctorTest, RunDirectory) {
  input.try_write = [](const std::string&) { return EACCES; };
  expect("run directory", Verdict::fail, "/run: Permission denied");
  fs::create_directories(input.root + "/run/ublkd");
  expect("run directory", Verdict::fail, "/run/ublkd: Permission denied");
}

TEST_F(DoctorTest, Daemon) {
  input.ping = []() -> Result<nlohmann::json> {
    return fail(ErrorKind::not_found, "no ublkd answers", "", "start one");
  };
  expect("daemon", Verdict::warn, "systemctl start ublkd");
  input.ping = []() -> Result<nlohmann::json> { return fail(ErrorKind::timeout, "no answer", "", "late"); };
  expect("daemon", Verdict::fail, "journalctl");
}

TEST_F(DoctorTest, EmptyMachineGivesAnswersOnly) {
  gone("");
  EXPECT_TRUE(any_failed(run_checks(input)));
  EXPECT_FALSE(checks_json(run_checks(input))["ok"].get<bool>());
}

TEST_F(DoctorTest, KnownBadKernelsAreNamed) {
  input.release = "6.17.0-35-generic";
  expect("kernel", Verdict::fail, "6.17.0-41");
}

TEST(KnownKernelsTest, BadOnes) {
  for (const char* release :
       {"6.17.0-35-generic", "6.17.0-38-generic", "6.17.0-40-lowlatency", "6.17.0-1019-aws",
        "6.17.0-1015-azure", "6.18.4", "6.18.5", "6.18.4-arch1-1", "6.18.5+deb14-amd64"}) {
    const auto news = kernel_news(release);
    ASSERT_TRUE(news) << release;
    EXPECT_EQ(news->fault, KernelFault::confirmed) << release;
  }
  ASSERT_TRUE(kernel_news("6.17.0-24-generic"));
  EXPECT_EQ(kernel_news("6.17.0-24-generic")->fault, KernelFault::suspected);
}

TEST(KnownKernelsTest, GoodOnes) {
  for (const char* release :
       {"6.17.0-41-generic", "6.17.0-14-generic", "6.17.0-1020-aws", "6.17.0-1021-azure", "6.18.6", "6.18.44",
        "6.18.3", "6.12.95+deb13-amd64", "7.3.4", "", "unknown", "6.17.0"})
    EXPECT_FALSE(kernel_news(release)) << release;
}

}  // namespace
}  // namespace ublkd::cli
