// Who has a block device open: for the message that refuses to delete it.
#pragma once

#include <string>
#include <vector>

#include "ublkd/result.h"

namespace ublkd {

// "pid 12 (fio)", "mounted on /mnt", "swap", "dm-0": everything found by /proc and sysfs, except
// our own process. Control thread; reads /proc, some milliseconds.
[[nodiscard]] std::vector<std::string> block_device_holders(const std::string& node, const std::string& disk_name);

// The same without the processes: mounts, swap, device mapper and the like. Cheap.
[[nodiscard]] std::vector<std::string> kernel_holders(const std::string& node, const std::string& disk_name);

// Processes that have path open, as "pid 12 (fio)".
[[nodiscard]] std::vector<std::string> processes_with_open(const std::string& path);

}  // namespace ublkd
