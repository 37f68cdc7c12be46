#include "targets/nvme/node.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <regex>

#include "base/sysfs.h"
#include "ublkd/units.h"

namespace ublkd {

namespace {

namespace fs = std::filesystem;

constexpr const char* wanted = "the nvme target takes a namespace: /dev/ngXnY, or its block node /dev/nvmeXnY";
constexpr std::uint64_t kib_bytes = 1024;
constexpr std::uint32_t command_set_zoned = 2;

Unexpected refuse(const std::string& path, const std::string& why) {
  return fail(ErrorKind::invalid, "open", path, why + "; " + wanted);
}

bool matches(const std::string& name, const char* pattern) { return std::regex_match(name, std::regex(pattern)); }

dev_t dev_of(const std::string& folder) {
  const auto text = sysfs_text(folder + "/dev");
  const auto colon = text ? text->find(':') : std::string::npos;
  if (colon == std::string::npos) return 0;
  return makedev(static_cast<unsigned>(std::atoi(text->c_str())),
                 static_cast<unsigned>(std::atoi(text->c_str() + colon + 1)));
}

// The sysfs folder of a node; empty when the kernel has no such device.
fs::path folder_of(NodeKind kind, dev_t dev, const NvmeRoots& roots) {
  std::error_code ec;
  return fs::canonical(fmt::format("{}/dev/{}/{}:{}", roots.sys, kind == NodeKind::block ? "block" : "char", major(dev),
                                   minor(dev)),
                       ec);
}

Unexpected refuse_partition(const std::string& path, const fs::path& folder) {
  const std::uint64_t begin = sysfs_number(folder / "start").value_or(0) * sector_bytes;
  const std::uint64_t length = sysfs_number(folder / "size").value_or(0) * sector_bytes;
  return fail(ErrorKind::invalid, "open", path,
              fmt::format("it is a partition, which passthrough does not know; use path /dev/{} with offset {} and "
                          "length {}",
                          folder.parent_path().filename().string(), begin, length));
}

Result<std::string> block_name_of(const std::string& path, const fs::path& folder) {
  const std::string name = folder.filename();
  if (fs::exists(folder / "partition")) return refuse_partition(path, folder);
  if (!matches(name, "nvme[0-9]+n[0-9]+"))
    return refuse(path, name + " is a block device that is no NVMe namespace; use target file for it");
  return name;
}

Result<std::string> block_name_of_generic(const std::string& path, const fs::path& folder) {
  const std::string name = folder.filename();
  if (matches(name, "ng[0-9]+n[0-9]+")) return "nvme" + name.substr(2);
  if (matches(name, "nvme[0-9]+"))
    return refuse(path, "it is the controller, which may have several namespaces, not one of them");
  return refuse(path, (name.empty() ? "it" : name) + " is a character device that is no NVMe namespace");
}

std::vector<fs::path> queue_folders(const NvmeNode& node, const NvmeRoots& roots) {
  std::vector<fs::path> disks{fs::path(node.folder) / node.block_name};
  if (node.multipath) {  // the head has no queues, its paths have
    const auto n = node.block_name.find('n', 4);
    const std::string pattern = node.block_name.substr(0, n) + "c[0-9]+" + node.block_name.substr(n);
    std::error_code ec;
    for (const auto& entry : fs::directory_iterator(roots.sys + "/block", ec))
      if (matches(entry.path().filename(), pattern.c_str())) disks.push_back(entry.path());
  }
  std::vector<fs::path> folders;
  for (const fs::path& disk : disks) {
    std::error_code ec;
    for (const auto& entry : fs::directory_iterator(disk / "mq", ec)) folders.push_back(entry.path());
  }
  return folders;
}

}  // namespace

Result<NvmeNode> nvme_node_of(const std::string& path, NodeKind kind, dev_t dev, const NvmeRoots& roots) {
  const fs::path folder = folder_of(kind, dev, roots);
  const auto block_name =
      kind == NodeKind::block ? block_name_of(path, folder) : block_name_of_generic(path, folder);
  if (!block_name) return Unexpected(block_name.error());
  NvmeNode node;
  node.block_name = *block_name;
  node.name = "ng" + block_name->substr(4);
  node.folder = folder.parent_path();
  node.path = kind == NodeKind::character ? path : roots.dev + "/" + node.name;
  node.generic_dev = dev_of(node.folder + "/" + node.name);
  node.block_dev = dev_of(node.folder + "/" + node.block_name);
  node.multipath = node.folder.find("/nvme-subsystem/") != std::string::npos;
  if (node.generic_dev == 0)
    return fail(ErrorKind::unsupported, "open", path,
                "the kernel has no generic node " + node.name + " beside it; passthrough needs Linux 5.19");
  return node;
}

Result<NvmeNode> find_nvme_node(const std::string& path, const NvmeRoots& roots) {
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0)
    return fail_errno(errno, "open", path,
                      errno == ENOENT ? "is the drive there, and its driver loaded? ls /dev/ng*" : "");
  if (S_ISREG(st.st_mode)) return refuse(path, "it is a regular file; use target file for it");
  if (S_ISDIR(st.st_mode)) return refuse(path, "it is a directory");
  if (!S_ISBLK(st.st_mode) && !S_ISCHR(st.st_mode)) return refuse(path, "it is no device");
  return nvme_node_of(path, S_ISBLK(st.st_mode) ? NodeKind::block : NodeKind::character, st.st_rdev, roots);
}

bool nvme_node_is_there(const NvmeNode& node) {
  const std::string folder = node.folder + "/" + node.name;
  if (const dev_t now = dev_of(folder); now != 0) return now == node.generic_dev;
  struct stat st {};
  return ::stat(folder.c_str(), &st) == 0 || errno != ENOENT;
}

bool nvme_format_is(const NvmeNode& node, std::uint32_t block_bytes) {
  const std::string disk = node.folder + "/" + node.block_name;
  return sysfs_number(disk + "/queue/logical_block_size").value_or(block_bytes) == block_bytes &&
         sysfs_number(disk + "/metadata_bytes").value_or(0) == 0;
}

std::uint64_t nvme_size_bytes(const NvmeNode& node) {
  return sysfs_number(node.folder + "/" + node.block_name + "/size").value_or(0) * sector_bytes;
}

NvmeLimits nvme_limits(const NvmeNode& node, const NvmeRoots& roots) {
  const std::string disk = node.folder + "/" + node.block_name + "/";
  const auto number = [&](const char* name) { return sysfs_number(disk + name).value_or(0); };
  const auto number32 = [&](const char* name) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(number(name), 0xffffffff));
  };
  NvmeLimits l;
  l.size_bytes = nvme_size_bytes(node);
  if (sysfs_number(disk + "metadata_bytes")) l.metadata_bytes = number32("metadata_bytes");
  l.command_set = sysfs_text(disk + "queue/zoned").value_or("none") == "none" ? number32("csi") : command_set_zoned;
  l.logical_block_bytes = number32("queue/logical_block_size");
  l.physical_block_bytes = number32("queue/physical_block_size");
  l.io_min_bytes = number32("queue/minimum_io_size");
  l.io_opt_bytes = number32("queue/optimal_io_size");
  l.transfer_bytes_max = number("queue/max_hw_sectors_kb") * kib_bytes;
  l.segments_max = number32("queue/max_segments");
  l.segment_bytes_max = number32("queue/max_segment_size");
  l.virt_boundary_mask = number("queue/virt_boundary_mask");
  l.dma_alignment = sysfs_number(disk + "queue/dma_alignment") ? number32("queue/dma_alignment") : l.dma_alignment;
  l.discard_bytes_max = number("queue/discard_max_hw_bytes");
  l.discard_granularity_bytes = number32("queue/discard_granularity");
  l.write_zeroes_bytes_max = number("queue/write_zeroes_max_bytes");
  l.atomic_write_bytes = number32("queue/atomic_write_unit_max_bytes");
  l.volatile_cache = sysfs_text(disk + "queue/write_cache").value_or("") != "write through";
  l.rotational = number("queue/rotational") != 0;
  l.polled = number("queue/io_poll") != 0;
  for (const fs::path& queue : queue_folders(node, roots)) {
    const auto tags = static_cast<std::uint32_t>(sysfs_number(queue / "nr_tags").value_or(0));
    ++l.queues;
    if (tags != 0) l.tags = l.tags == 0 ? tags : std::min(l.tags, tags);
  }
  return l;
}

std::string nvme_attribute(const NvmeNode& node, const std::string& name, const NvmeRoots&) {
  if (const auto text = sysfs_text(node.folder + "/" + name)) return *text;
  // A subsystem has its controllers beside the namespaces.
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(node.folder, ec)) {
    if (!matches(entry.path().filename(), "nvme[0-9]+")) continue;
    if (const auto text = sysfs_text(entry.path() / name)) return *text;
  }
  return {};
}

}  // namespace ublkd
