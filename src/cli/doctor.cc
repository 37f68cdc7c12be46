#include "cli/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>

#include "abi/features.h"
#include "api/run_dir.h"
#include "base/fd.h"
#include "cli/direct_features.h"
#include "cli/table.h"
#include "control/known_kernels.h"

namespace ublkd::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t file_bytes_max = std::size_t{8} << 20;  // modules.dep of a large kernel: under 2 MiB
constexpr unsigned cap_ipc_lock = 14;
constexpr unsigned cap_sys_admin = 21;
constexpr std::uint64_t files_base = 64;     // of the daemon itself
constexpr std::uint64_t files_a_device = 3;  // ublkcN, backing, and one to spare
constexpr std::uint64_t devices_usual = 64;
constexpr std::uint64_t memlock_enough_bytes = std::uint64_t{64} << 20;

std::string why(int errno_value) {
  return std::error_code(errno_value, std::generic_category()).message();
}

Check good(std::string name, std::string found) {
  return {std::move(name), Verdict::ok, std::move(found), ""};
}
Check warned(std::string name, std::string found, std::string mend) {
  return {std::move(name), Verdict::warn, std::move(found), std::move(mend)};
}
Check bad(std::string name, std::string found, std::string mend) {
  return {std::move(name), Verdict::fail, std::move(found), std::move(mend)};
}

bool there(const DoctorInput& in, const std::string& path) {
  std::error_code ec;
  return fs::exists(in.root + path, ec);
}

// Text of a file without its last newline; nothing when it cannot be read.
std::optional<std::string> text_of(const DoctorInput& in, const std::string& path) {
  auto text = read_file(in.root + path, file_bytes_max);
  if (!text) return std::nullopt;
  while (!text->empty() && text->back() == '\n') text->pop_back();
  return *text;
}

std::optional<std::uint64_t> capabilities(const DoctorInput& in) {
  const auto status = text_of(in, "/proc/self/status");
  if (!status) return std::nullopt;
  constexpr std::string_view key = "\nCapEff:";
  const std::size_t at = status->find(key);
  if (at == std::string::npos) return std::nullopt;
  const std::size_t digits = status->find_first_not_of(" \t", at + key.size());
  if (digits == std::string::npos) return std::nullopt;
  std::uint64_t mask = 0;
  const auto parsed = std::from_chars(status->data() + digits, status->data() + status->size(), mask, 16);
  if (parsed.ec != std::errc()) return std::nullopt;
  return mask;
}

bool has_capability(const DoctorInput& in, unsigned bit) {
  const auto mask = capabilities(in);
  return mask && ((*mask >> bit) & 1) != 0;
}

Check check_privileges(const DoctorInput& in) {
  if (has_capability(in, cap_sys_admin)) return good("privileges", "CAP_SYS_ADMIN");
  return bad("privileges", "no CAP_SYS_ADMIN, which adding devices needs", "run as root");
}

Check check_kernel(const DoctorInput& in) {
  const auto news = kernel_news(in.release);
  if (!news) return good("kernel", in.release);
  const std::string found = fmt::format("{}: {}", in.release, news->what);
  if (news->fault == KernelFault::suspected) return warned("kernel", found, std::string(news->mend));
  return bad("kernel", found, std::string(news->mend));
}

Check check_io_uring(const DoctorInput& in) {
  const std::string name = "io_uring";
  const auto sysctl = text_of(in, "/proc/sys/kernel/io_uring_disabled");
  const std::string state =
      sysctl ? "kernel.io_uring_disabled=" + *sysctl : "no sysctl kernel.io_uring_disabled";
  const int e = in.try_ring();
  if (e == 0) return good(name, "allowed, " + state);
  const bool switched_off = sysctl && *sysctl != "0";
  if ((e == EPERM || e == EACCES) && switched_off)
    return bad(name, "switched off by " + state, "sysctl kernel.io_uring_disabled=0");
  if (e == EPERM || e == EACCES)
    return bad(name, fmt::format("refused ({}) though {}: by a sandbox", why(e), state),
               "let the container or the unit's SystemCallFilter allow io_uring_setup, _enter and _register");
  if (e == ENOSYS)
    return bad(name, "this kernel has no io_uring, or a sandbox hides it",
               "use a kernel with CONFIG_IO_URING, or allow the calls in the sandbox");
  if (e == ENOMEM)
    return bad(name, "no memory for a ring: " + why(e), "raise the memlock limit (LimitMEMLOCK=, ulimit -l)");
  if (e == EMFILE || e == ENFILE)
    return bad(name, why(e), "raise the limit of open files (LimitNOFILE=, ulimit -n)");
  return bad(name, why(e), "look into dmesg");
}

Check check_sqe128(const DoctorInput& in) {
  const int e = in.try_ring_sqe128();
  if (e == 0) return good("128-byte ring entries", "there");
  return bad("128-byte ring entries", why(e),
             e == EINVAL ? "needs kernel 5.19 or later" : "see io_uring above");
}

bool lists_driver(const std::optional<std::string>& modules) {
  return modules && modules->find("/ublk_drv.ko") != std::string::npos;
}

// The four states users mix up: built in, loaded, not loaded, not installed; and a node that udev or
// devtmpfs has not made yet.
Check check_module(const DoctorInput& in) {
  const std::string name = "driver ublk_drv";
  const std::string modules = "/lib/modules/" + in.release;
  const bool driver = there(in, "/sys/module/ublk_drv") || there(in, "/sys/class/misc/ublk-control");
  const bool node = there(in, control_node);
  if (driver && node)
    return good(name,
                lists_driver(text_of(in, modules + "/modules.builtin")) ? "built into the kernel" : "loaded");
  if (node) return good(name, std::string(control_node) + " is there");
  if (driver)
    return bad(name, fmt::format("there, but {} is not", control_node),
               "udevadm trigger --subsystem-match=misc; in a container: pass the device in");
  if (lists_driver(text_of(in, modules + "/modules.dep")))
    return bad(name, "installed but not loaded",
               "modprobe ublk_drv; for each boot: echo ublk_drv > /etc/modules-load.d/ublkd.conf");
  if (there(in, modules))
    return bad(name, fmt::format("not installed for kernel {}", in.release),
               fmt::format(
                   "install the modules package of this kernel (Ubuntu: linux-modules-extra-{}), or a kernel "
                   "with CONFIG_BLK_DEV_UBLK",
                   in.release));
  return bad(name, fmt::format("not loaded, and there is no {}", modules),
             "install the modules of the running kernel, or reboot into the installed one; in a container: "
             "load it outside");
}

std::string owner_and_mode(const DoctorInput& in, const std::string& path) {
  std::error_code ec;
  const auto status = fs::status(in.root + path, ec);
  return ec ? "" : fmt::format(", mode {:04o}", static_cast<unsigned>(status.permissions()) & 07777U);
}

Check check_control_node(const DoctorInput& in) {
  const std::string name = "control node";
  if (!there(in, control_node))
    return bad(name, std::string(control_node) + " is not there", "see driver above");
  const int e = in.try_open(in.root + control_node);
  if (e == 0) return good(name, std::string(control_node) + " can be opened");
  return bad(name, fmt::format("{}: {}{}", control_node, why(e), owner_and_mode(in, control_node)),
             "run as root; in a container: allow the device");
}

Check check_features(const DoctorInput& in) {
  const std::string name = "kernel features";
  const auto mask = in.features();
  if (!mask) return bad(name, mask.error().text(), "see above");
  std::string found = fmt::format("{:#x}", *mask);
  if ((*mask & abi::feature_bit(abi::Feature::cmd_ioctl_encode)) == 0)
    return bad(name, found + " without CMD_IOCTL_ENCODE", "use kernel 6.4 or later");
  if ((*mask >> abi::features_known) != 0) found += ", some newer than this program";
  return good(name, found);
}

std::size_t entries_of(const DoctorInput& in, const std::string& path) {
  std::error_code ec;
  std::size_t n = 0;
  for (fs::directory_iterator it(in.root + path, ec); !ec && it != fs::directory_iterator(); it.increment(ec))
    ++n;
  return n;
}

Check check_device_limit(const DoctorInput& in) {
  const std::string name = "device limit";
  const std::size_t used = entries_of(in, "/sys/class/ublk-char");
  const auto text = text_of(in, "/sys/module/ublk_drv/parameters/ublks_max");
  if (!text)
    return good(name, fmt::format("{} ublk devices in use; ublks_max unknown without the driver", used));
  std::uint64_t limit = 0;
  std::from_chars(text->data(), text->data() + text->size(), limit);
  const std::string found = fmt::format("{} ublk devices in use, ublks_max {}", used, limit);
  if (used < limit) return good(name, found);
  return warned(name, found + ": kernels before 6.15 refuse more (later ones only to users without root)",
                "echo 1024 > /sys/module/ublk_drv/parameters/ublks_max");
}

Check check_memlock(const DoctorInput& in) {
  const std::string name = "memlock limit";
  if (in.memlock_bytes == ~std::uint64_t{0}) return good(name, "unlimited");
  const std::string found = human_bytes(in.memlock_bytes);
  if (has_capability(in, cap_ipc_lock)) return good(name, found + ", not applied: CAP_IPC_LOCK");
  if (in.memlock_bytes >= memlock_enough_bytes) return good(name, found);
  return warned(name, found + ": may be too little for rings and registered buffers",
                "LimitMEMLOCK=infinity in the unit, or ulimit -l unlimited");
}

Check check_open_files(const DoctorInput& in) {
  const std::string name = "open files limit";
  const std::uint64_t devices =
      in.open_files > files_base ? (in.open_files - files_base) / files_a_device : 0;
  const std::string found = fmt::format("{}: enough for {} devices", in.open_files, devices);
  if (devices >= devices_usual) return good(name, found);
  return warned(name, found, "LimitNOFILE=65536 in the unit, or ulimit -n 65536");
}

Check check_udev(const DoctorInput& in) {
  if (there(in, "/run/udev/control")) return good("udev", "running");
  return warned("udev", "not running: names below /dev/disk are not made, nodes come from devtmpfs only",
                "systemctl start systemd-udevd");
}

bool is_about_ublk(const DoctorInput& in, const std::string& dir, const std::string& file) {
  if (file.find("ublk") != std::string::npos) return true;
  if (file != "60-persistent-storage.rules") return false;
  const auto text = text_of(in, dir + "/" + file);
  return text && text->find("ublk") != std::string::npos;
}

Check check_udev_rules(const DoctorInput& in) {
  const std::string name = "udev rules";
  for (const char* dir :
       {"/etc/udev/rules.d", "/run/udev/rules.d", "/usr/lib/udev/rules.d", "/lib/udev/rules.d"}) {
    std::error_code ec;
    for (fs::directory_iterator it(in.root + dir, ec); !ec && it != fs::directory_iterator();
         it.increment(ec)) {
      const std::string file = it->path().filename().string();
      if (is_about_ublk(in, dir, file)) return good(name, std::string(dir) + "/" + file);
    }
  }
  return warned(name, "none for ublk devices",
                "install the rules that come with ublkd, or systemd 257 or later");
}

Check check_run_dir(const DoctorInput& in) {
  const std::string name = "run directory";
  const std::string path = api::run_dir_default;
  const std::string probed = there(in, path) ? path : fs::path(path).parent_path().string();
  const int e = in.try_write(in.root + probed);
  if (e != 0)
    return bad(name, fmt::format("{}: {}{}", probed, why(e), owner_and_mode(in, probed)),
               "run ublkd as root, or give it a --run-dir of its own");
  return good(name, probed == path ? path + " can be written" : path + " can be made");
}

Check check_daemon(const DoctorInput& in) {
  const auto answer = in.ping();
  if (answer) return good("daemon", "answers");
  if (answer.error().kind == ErrorKind::not_found)
    return warned("daemon", "none is running", "systemctl start ublkd, or ublkd &");
  return bad("daemon", answer.error().text(), "see its log: journalctl -u ublkd");
}

const char* word(Verdict v) {
  switch (v) {
    case Verdict::ok: return "ok";
    case Verdict::warn: return "warn";
    case Verdict::fail: return "FAIL";
  }
  return "?";
}

}  // namespace

std::vector<Check> run_checks(const DoctorInput& in) {
  return {check_privileges(in), check_kernel(in),       check_io_uring(in), check_sqe128(in),
          check_module(in),     check_control_node(in), check_features(in), check_device_limit(in),
          check_memlock(in),    check_open_files(in),   check_udev(in),     check_udev_rules(in),
          check_run_dir(in),    check_daemon(in)};
}

bool any_failed(const std::vector<Check>& checks) {
  return std::any_of(checks.begin(), checks.end(), [](const Check& c) { return c.verdict == Verdict::fail; });
}

std::string checks_text(const std::vector<Check>& checks) {
  std::string out;
  for (const Check& c : checks) {
    out += fmt::format("{:<5} {}: {}", word(c.verdict), c.name, c.found);
    out += c.mend.empty() ? "\n" : fmt::format("; to mend: {}\n", c.mend);
  }
  return out;
}

nlohmann::json checks_json(const std::vector<Check>& checks) {
  nlohmann::json list = nlohmann::json::array();
  for (const Check& c : checks)
    list.push_back({{"name", c.name},
                    {"verdict", c.verdict == Verdict::fail ? "fail" : word(c.verdict)},
                    {"found", c.found},
                    {"mend", c.mend}});
  return {{"ok", !any_failed(checks)}, {"checks", std::move(list)}};
}

}  // namespace ublkd::cli
