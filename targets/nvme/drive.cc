#include "targets/nvme/drive.h"

#include <fcntl.h>
#include <linux/nvme_ioctl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <limits>

#include "base/log.h"
#include "targets/nvme/command.h"
#include "targets/nvme/self_check.h"

namespace ublkd {

namespace {

Result<Fd> open_generic(const NvmeNode& node, bool read_only) {
  auto fd = open_file(node.path, read_only ? O_RDONLY : O_RDWR);
  struct stat st {};
  if (fd && ::fstat(fd->get(), &st) == 0 && st.st_rdev != node.generic_dev)
    return fail(ErrorKind::busy, "open", node.path,
                "it is another device than " + node.name + " of the kernel; is it an old node, or was it replaced?");
  if (fd) return fd;
  Error& error = fd.error();
  if (error.kind == ErrorKind::permission && ::stat(node.path.c_str(), &st) == 0)
    error.advice = fmt::format("its owner is {}:{}, its mode {:04o}; grant {}, or set read_only", st.st_uid, st.st_gid,
                               st.st_mode & 07777, read_only ? "reading" : "reading and writing");
  return fd;
}

Result<std::uint32_t> namespace_id(const Fd& fd, const std::string& path) {
  const int id = ::ioctl(fd.get(), NVME_IOCTL_ID);
  if (id > 0) return static_cast<std::uint32_t>(id);
  return fail_errno(id < 0 ? errno : EINVAL, "ask for the namespace's number", path, "is its controller live?");
}

// Held for all devices of this daemon on the namespace: who mounts it, or claims it otherwise, is refused meanwhile.
Result<std::shared_ptr<void>> use_exclusively(const NvmeNode& node, const NvmeOptions& options,
                                              const OpenContext& context) {
  const BackingClaims::Make open = [&]() -> Result<std::shared_ptr<void>> {
    const std::string path = "/dev/" + node.block_name;
    auto fd = open_file(path, O_RDONLY | O_EXCL);
    if (fd) return std::make_shared<Fd>(std::move(*fd));
    if (fd.error().errno_value == EBUSY) {
      if (!options.force)
        return fail(ErrorKind::busy, "open", path,
                    "the namespace is mounted, or in use by another program; force: true serves it all the same");
      log_warning("{}: {} is in use by somebody else, and is served by force", context.device_name, path);
      return std::shared_ptr<void>();
    }
    log_notice("{}: {}; whether somebody else uses the namespace is not known", context.device_name,
               fd.error().text());
    return std::shared_ptr<void>();
  };
  if (context.read_only || node.block_dev == 0) return std::shared_ptr<void>();
  if (context.claims == nullptr) return open();
  // By its number: a drive that went and came back has the old name while the old one is still held.
  return context.claims->share(fmt::format("nvme {}:{}", major(node.block_dev), minor(node.block_dev)), open);
}

// The same thing under its block node's identity, which the file target claims too.
Result<std::shared_ptr<void>> claim(const NvmeDrive& drive, NvmeSpan span, const OpenContext& context) {
  if (context.claims == nullptr) return std::shared_ptr<void>();
  const dev_t dev = drive.node.block_dev != 0 ? drive.node.block_dev : drive.node.generic_dev;
  // A device that follows the namespace's size has all of what may come, too.
  const std::uint64_t length = drive.whole ? device_bytes_max - span.begin_bytes : span.length_bytes;
  return context.claims->claim({dev, 0, span.begin_bytes, length, !context.read_only}, context.device_name,
                               drive.node.path);
}

// By the drive, or where the right to ask it is missing, by what the kernel found out.
Result<void> identify(NvmeDrive& drive, const std::string& device_name) {
  const NvmeLimits& l = drive.limits;
  const auto format = identify_namespace(drive.fd.get(), drive.nsid);
  if (!format && !l.metadata_bytes && l.size_bytes != 0)
    return fail(ErrorKind::permission, "identify", drive.node.path,
                "the drive cannot be asked for its format, and this kernel does not tell it (Linux 6.8); grant "
                "CAP_SYS_ADMIN, or see whether its controller is live");
  if (!format)
    log_notice("{}: {}: the drive cannot be asked for its format; the kernel's word is taken", device_name,
               drive.node.path);
  const std::uint64_t blocks = l.logical_block_bytes == 0 ? 0 : l.size_bytes / l.logical_block_bytes;
  drive.format = format.value_or(NvmeFormat{.blocks = blocks,
                                            .block_bytes = l.logical_block_bytes,
                                            .metadata_bytes = l.metadata_bytes.value_or(0)});
  drive.abilities = usable_abilities(
      identify_controller(drive.fd.get()).value_or(NvmeAbilities{.write_zeroes = true, .dataset_management = true}), l);
  if (drive.abilities.dataset_management)
    drive.discard = identify_command_set(drive.fd.get()).value_or(NvmeDiscardLimits{});
  return {};
}

bool can_poll(const NvmeDrive& drive, const NvmeOptions& options, const OpenContext& context) {
  if (!options.poll) return false;
  if (drive.limits.polled) return true;
  log_warning("{}: {}: the driver has no queues for polling (module parameter nvme.poll_queues); interrupts serve",
              context.device_name, drive.node.path);
  return false;
}

}  // namespace

Result<void> check_format(const NvmeFormat& format, const NvmeLimits& limits, const std::string& path) {
  if (limits.command_set != 0)
    return fail(ErrorKind::unsupported, "open", path,
                fmt::format("its command set is number {}{}; only NVM, number 0, is served", limits.command_set,
                            limits.command_set == 2 ? ", zoned" : ""));
  if (format.metadata_bytes != 0)
    return fail(ErrorKind::unsupported, "open", path,
                fmt::format("its blocks have {} bytes of data and {} of metadata, {}; format it without metadata",
                            format.block_bytes, format.metadata_bytes,
                            format.metadata_interleaved ? "interleaved" : "separate"));
  if (format.protection_type != 0)
    return fail(ErrorKind::unsupported, "open", path,
                fmt::format("its blocks have protection information of type {}; format it without",
                            format.protection_type));
  if (format.block_bytes < 512 || format.block_bytes > page_bytes || !std::has_single_bit(format.block_bytes))
    return fail(ErrorKind::unsupported, "open", path,
                fmt::format("its blocks have {} bytes; 512 to {} are served", format.block_bytes, page_bytes));
  if (limits.size_bytes == 0 || format.blocks == 0)
    return fail(ErrorKind::unsupported, "open", path, "it has no size: the kernel does not serve its format");
  return {};
}

Result<NvmeSpan> choose_span(const NvmeOptions& options, std::uint64_t size_bytes, std::uint32_t block_bytes) {
  const auto refuse = [&](const std::string& why) { return fail(ErrorKind::invalid, "open", options.path, why); };
  const std::uint64_t begin = options.offset_bytes;
  if (begin % block_bytes != 0)
    return refuse(fmt::format("offset {} is no multiple of its {} B block", begin, block_bytes));
  if (begin >= size_bytes) return refuse(fmt::format("offset {} is not inside its {} bytes", begin, size_bytes));
  const std::uint64_t length = options.length_bytes.value_or(size_bytes - begin);
  if (length % block_bytes != 0)
    return refuse(fmt::format("length {} is no multiple of its {} B block", length, block_bytes));
  if (length > size_bytes - begin)
    return refuse(fmt::format("offset {} and length {} end beyond its {} bytes", begin, length, size_bytes));
  if (length == 0 || length > device_bytes_max)
    return refuse(fmt::format("a device has {} to {} bytes", block_bytes, device_bytes_max));
  return NvmeSpan{begin, length};
}

NvmeAbilities usable_abilities(NvmeAbilities told, const NvmeLimits& limits) {
  told.write_zeroes = told.write_zeroes && limits.write_zeroes_bytes_max != 0;
  told.dataset_management = told.dataset_management && limits.discard_bytes_max != 0;
  return told;
}

std::uint32_t discard_blocks_max(const NvmeDrive& drive) {
  std::uint64_t blocks = std::numeric_limits<std::uint32_t>::max();
  if (drive.discard.range_blocks_max != 0) blocks = drive.discard.range_blocks_max;
  if (drive.discard.command_blocks_max != 0) blocks = std::min(blocks, drive.discard.command_blocks_max);
  const std::uint64_t unit = drive.limits.discard_granularity_bytes / drive.format.block_bytes;
  if (unit != 0 && blocks > unit) blocks -= blocks % unit;
  return static_cast<std::uint32_t>(blocks);
}

std::uint32_t zero_blocks_max(const NvmeDrive& drive) {
  const std::uint64_t kernels = drive.limits.write_zeroes_bytes_max / drive.format.block_bytes;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(kernels, 1, nvme_blocks_max));
}

Geometry nvme_geometry(const NvmeDrive& drive, const NvmeOptions& options, const OpenContext& context, NvmeSpan span) {
  const NvmeLimits& l = drive.limits;
  const std::uint32_t block = drive.format.block_bytes;
  constexpr std::uint64_t range_bytes_limit = (std::uint64_t{1} << 32) - page_bytes;
  Geometry g;
  g.size_bytes = span.length_bytes;
  g.logical_block_bytes = block;
  // Not larger than our begin allows: there is no way to say that the first block starts in the middle.
  g.physical_block_bytes = std::max(l.physical_block_bytes, block);
  while (g.physical_block_bytes > block && span.begin_bytes % g.physical_block_bytes != 0) g.physical_block_bytes /= 2;
  const std::uint32_t io_min = std::max(l.io_min_bytes, g.physical_block_bytes);
  g.io_min_bytes = span.begin_bytes % io_min == 0 ? io_min : g.physical_block_bytes;
  g.io_opt_bytes = l.io_opt_bytes;
  constexpr std::uint64_t io_bytes_limit = 32 * 1024 * 1024;  // the kernel's of a ublk request
  const std::uint64_t transfer = l.transfer_bytes_max == 0 ? io_bytes_limit : l.transfer_bytes_max;
  g.io_bytes_max = static_cast<std::uint32_t>(
      std::max<std::uint64_t>(std::min(transfer, io_bytes_limit) / page_bytes * page_bytes, page_bytes));
  g.dma_alignment = std::min(l.dma_alignment, page_bytes - 1);
  g.virt_boundary_mask = l.virt_boundary_mask;
  g.segments_max = l.segments_max;
  g.segment_bytes_max = l.segment_bytes_max;
  g.read_only = context.read_only;
  g.volatile_cache = l.volatile_cache && !context.read_only;
  g.fua = g.volatile_cache;
  g.rotational = l.rotational;
  if (!context.read_only && drive.abilities.dataset_management) {
    g.discard_bytes_max =
        std::min(range_bytes_limit / block * block, std::uint64_t{discard_blocks_max(drive)} * block);
    g.discard_granularity_bytes = std::max(l.discard_granularity_bytes, block);
  }
  if (!context.read_only && drive.abilities.write_zeroes)
    g.write_zeroes_bytes_max = std::uint64_t{zero_blocks_max(drive)} * block;
  g.depth = std::min(l.tags, depth_max);
  g.sqes_per_request = 1;
  g.pins_data = true;
  g.polled = can_poll(drive, options, context);
  g.zero_copy = !g.polled;
  return g;
}

Result<NvmeDrive> open_nvme_drive(const NvmeOptions& options, const OpenContext& context) {
  auto node = find_nvme_node(options.path);
  if (!node) return Unexpected(node.error());
  NvmeDrive drive;
  drive.node = std::move(*node);
  auto fd = open_generic(drive.node, context.read_only);
  if (!fd) return Unexpected(fd.error());
  drive.fd = std::move(*fd);
  auto nsid = namespace_id(drive.fd, drive.node.path);
  if (!nsid) return Unexpected(nsid.error());
  drive.nsid = *nsid;
  drive.limits = nvme_limits(drive.node);
  if (auto r = identify(drive, context.device_name); !r) return Unexpected(r.error());
  if (auto r = check_format(drive.format, drive.limits, drive.node.path); !r) return Unexpected(r.error());
  const std::uint64_t size = std::min(drive.limits.size_bytes, drive.format.blocks * drive.format.block_bytes);
  auto span = choose_span(options, size, drive.format.block_bytes);
  if (!span) return Unexpected(span.error());
  drive.begin_bytes = span->begin_bytes;
  drive.whole = !options.length_bytes.has_value();
  if (context.logical_block_bytes != 0 && context.logical_block_bytes != drive.format.block_bytes)
    return fail(ErrorKind::invalid, "open", drive.node.path,
                fmt::format("logical_block_size {} is asked for, but the namespace is formatted with {}",
                            context.logical_block_bytes, drive.format.block_bytes));
  auto claimed = claim(drive, *span, context);
  if (!claimed) return Unexpected(claimed.error());
  drive.claim = std::move(*claimed);
  auto exclusive = use_exclusively(drive.node, options, context);
  if (!exclusive) return Unexpected(exclusive.error());
  drive.exclusive = std::move(*exclusive);
  if (auto r = nvme_self_check(drive.fd.get(), drive.nsid, drive.begin_bytes / drive.format.block_bytes,
                               drive.format.block_bytes, drive.node.path);
      !r)
    return Unexpected(r.error());
  drive.geometry = nvme_geometry(drive, options, context, *span);
  return drive;
}

}  // namespace ublkd
