#include "control/holders.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/fd.h"

namespace ublkd {

namespace fs = std::filesystem;

namespace {

void mounts_of(const std::string& node, std::vector<std::string>& found) {
  std::ifstream mounts("/proc/self/mounts");
  std::string line;
  while (std::getline(mounts, line)) {
    std::istringstream fields(line);
    std::string source, where;
    fields >> source >> where;
    // The node itself or a partition of it (/dev/ublkb0p1).
    if (source == node || (source.starts_with(node + "p") && source.size() > node.size() + 1))
      found.push_back("mounted on " + where);
  }
}

void kernel_holders_of(const std::string& disk_name, std::vector<std::string>& found) {
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator("/sys/block/" + disk_name + "/holders", ec))
    found.push_back("held by " + entry.path().filename().string());
  std::ifstream swaps("/proc/swaps");
  std::string line;
  while (std::getline(swaps, line))
    if (line.starts_with("/dev/" + disk_name)) found.push_back("in use as swap");
}

}  // namespace

std::vector<std::string> processes_with_open(const std::string& path) {
  std::vector<std::string> found;
  const std::string deleted = path + " (deleted)";  // as the kernel names it when the node is gone
  std::error_code ec;
  for (const auto& process : fs::directory_iterator("/proc", ec)) {
    const std::string pid = process.path().filename().string();
    if (pid.empty() || pid.find_first_not_of("0123456789") != std::string::npos) continue;
    if (pid == std::to_string(::getpid())) continue;
    std::error_code gone;
    for (fs::directory_iterator it(process.path() / "fd", gone), end; !gone && it != end; it.increment(gone)) {
      const auto target = fs::read_symlink(it->path(), gone);
      if (gone) {
        gone.clear();
        continue;
      }
      if (target != path && target != deleted) continue;
      auto name = read_file("/proc/" + pid + "/comm", 64);
      const std::string comm = name && !name->empty() ? name->substr(0, name->size() - 1) : "?";
      found.push_back("pid " + pid + " (" + comm + ")");
      break;
    }
  }
  return found;
}

std::vector<std::string> kernel_holders(const std::string& node, const std::string& disk_name) {
  std::vector<std::string> found;
  mounts_of(node, found);
  kernel_holders_of(disk_name, found);
  return found;
}

std::vector<std::string> block_device_holders(const std::string& node, const std::string& disk_name) {
  std::vector<std::string> found = kernel_holders(node, disk_name);
  for (auto& p : processes_with_open(node)) found.push_back(std::move(p));
  return found;
}

}  // namespace ublkd
