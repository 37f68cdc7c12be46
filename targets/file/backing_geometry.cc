#include "targets/file/backing_geometry.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/stat.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

#include "base/log.h"
#include "base/sysfs.h"
#include "ublkd/segments.h"
#include "ublkd/units.h"

namespace ublkd {

namespace {

constexpr std::uint32_t io_bytes_max = 1024 * 1024;
constexpr std::uint32_t logical_block_bytes_max = page_bytes;
constexpr std::uint32_t physical_block_bytes_max = 64 * 1024;
constexpr std::uint32_t buffered_memory_align_bytes = 4;
constexpr std::uint64_t kib_bytes = 1024;

DirectAlignment usable(std::uint32_t offset_bytes, std::uint32_t memory_bytes) {
  if (offset_bytes > logical_block_bytes_max || memory_bytes > page_bytes) return {};
  return {offset_bytes, memory_bytes};
}

// Reads one block of each size at offset 0: the first that the file system takes.
DirectAlignment align_by_trying(int fd) {
  alignas(page_bytes) std::byte block[logical_block_bytes_max];
  for (std::uint32_t bytes = sector_bytes; bytes <= logical_block_bytes_max; bytes *= 2)
    if (::pread(fd, block, bytes, 0) >= 0) return {bytes, bytes};
  return {};
}

std::uint32_t block_number(int fd, unsigned long request, std::uint32_t fallback) {
  int value = 0;
  return ::ioctl(fd, request, &value) == 0 && value > 0 ? static_cast<std::uint32_t>(value) : fallback;
}

// The smallest logical block that the backing takes.
std::uint32_t block_bytes_min(const Backing& b, const DirectAlignment& align) {
  std::uint32_t bytes = std::max(sector_bytes, align.offset_bytes);
  if (b.kind == BackingKind::block)
    bytes = std::max(bytes, block_number(b.fd.get(), BLKSSZGET, sector_bytes));
  return bytes;
}

Result<std::uint32_t> choose_block(const Backing& b, const GeometryInput& in) {
  const std::uint32_t least = block_bytes_min(b, in.align);
  const std::uint32_t asked = in.context.logical_block_bytes;
  if (least > logical_block_bytes_max)
    return fail(ErrorKind::unsupported, "open", b.path,
                fmt::format("its logical block is {} bytes; at most {} can be served", least,
                            logical_block_bytes_max));
  if (asked == 0) return least;
  if (!std::has_single_bit(asked) || asked < sector_bytes || asked > logical_block_bytes_max)
    return fail(ErrorKind::invalid, "open", b.path,
                fmt::format("logical_block_bytes is {}; it must be 512, 1024, 2048 or 4096", asked));
  if (asked < least)
    return fail(
        ErrorKind::invalid, "open", b.path,
        fmt::format("logical_block_bytes is {}, but {} takes blocks of {} bytes only; leave it out{}", asked,
                    b.kind == BackingKind::block ? "the block device" : "direct I/O on this file", least,
                    b.kind == BackingKind::block ? "" : " or use io: buffered"));
  return asked;
}

struct Range {
  std::uint64_t begin_bytes;
  std::uint64_t length_bytes;
};
Result<Range> choose_range(const Backing& b, const GeometryInput& in, std::uint32_t block) {
  const std::uint64_t begin = in.options.offset_bytes;
  if (begin % block != 0)
    return fail(ErrorKind::invalid, "open", b.path,
                fmt::format("offset {} is no multiple of the {} B logical block", begin, block));
  const std::uint64_t room = begin < in.backing_bytes ? in.backing_bytes - begin : 0;
  const std::uint64_t length = in.options.length_bytes.value_or(room);
  if (length > room)
    return fail(
        ErrorKind::invalid, "open", b.path,
        fmt::format("offset {} and length {} end beyond its {} bytes", begin, length, in.backing_bytes));
  const std::uint64_t rounded = length & ~std::uint64_t{block - 1};
  if (rounded == 0)
    return fail(ErrorKind::invalid, "open", b.path,
                fmt::format("{} bytes are left from offset {}: less than one block of {} bytes", length,
                            begin, block));
  if (rounded > device_bytes_max)
    return fail(ErrorKind::limit, "open", b.path,
                fmt::format("a device has at most {} bytes", device_bytes_max));
  if (rounded != length)
    log_warning(
        "{}: {}: {} bytes are no multiple of the {} B logical block; the last {} bytes are not served",
        in.context.device_name, b.path, length, block, length - rounded);
  return Range{begin, rounded};
}

// Of the backing, but never so large that our begin would lie off its grid: the kernel has no way to
// say that the first block starts in the middle.
std::uint32_t physical_block(const Backing& b, const struct stat& st, std::uint32_t block) {
  std::uint32_t bytes = b.kind == BackingKind::block ? block_number(b.fd.get(), BLKPBSZGET, block)
                                                     : static_cast<std::uint32_t>(st.st_blksize);
  if (!std::has_single_bit(bytes)) bytes = page_bytes;
  bytes = std::clamp(bytes, block, physical_block_bytes_max);
  while (bytes > block && b.begin_bytes % bytes != 0) bytes /= 2;
  return bytes;
}

// The block device that the data goes to: the backing, or the one that its file system lies on.
dev_t device_below(const Backing& b, const struct stat& st) {
  return b.kind == BackingKind::block ? st.st_rdev : st.st_dev;
}

// Without the page cache our requests are the block device's, as they are: what it would split is better split by the
// kernel above us, where the parts are requests with tags of their own.
std::uint32_t largest_io(const Backing& b, const struct stat& st) {
  if (!b.direct) return io_bytes_max;
  const dev_t device = device_below(b, st);
  return unsplit_io_bytes(io_bytes_max,
                          {.segments_max = queue_attribute(device, "max_segments").value_or(0),
                           .io_bytes_max = queue_attribute(device, "max_sectors_kb").value_or(0) * kib_bytes});
}

void set_hints(Backing& b, const struct stat& st) {
  Geometry& g = b.geometry;
  g.physical_block_bytes = g.io_min_bytes = physical_block(b, st, g.logical_block_bytes);
  if (b.kind == BackingKind::block) {
    const std::uint32_t io_min = block_number(b.fd.get(), BLKIOMIN, 0);
    if (io_min > g.io_min_bytes && io_min % g.physical_block_bytes == 0 && b.begin_bytes % io_min == 0)
      g.io_min_bytes = io_min;
    const std::uint32_t io_opt = block_number(b.fd.get(), BLKIOOPT, 0);
    if (io_opt % g.physical_block_bytes == 0) g.io_opt_bytes = io_opt;
  }
  g.rotational = queue_attribute(device_below(b, st), "rotational").value_or(0) != 0;
}

// Direct I/O hands the pages themselves to the device. tmpfs copies all the same, from io-wq threads.
bool pins_data(const Backing& b) {
  struct statfs fs {};
  if (!b.direct || b.kind == BackingKind::block) return b.direct;
  return ::fstatfs(b.fd.get(), &fs) == 0 && fs.f_type != TMPFS_MAGIC;
}

}  // namespace

DirectAlignment direct_alignment(int fd) {
  struct statx sx {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_TYPE | STATX_DIOALIGN, &sx) == 0 &&
      (sx.stx_mask & STATX_DIOALIGN) != 0)
    return usable(sx.stx_dio_offset_align, sx.stx_dio_mem_align);
  int block = 0;
  if (::ioctl(fd, BLKSSZGET, &block) == 0 && block > 0)
    return usable(static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block));
  return align_by_trying(fd);
}

// The buffers of slots begin on a page (DeviceQueue's memory is a mapping, cut into multiples of pages), so a request
// starts at offset 0 of its first one.
std::uint32_t unsplit_io_bytes(std::uint32_t io_bytes_max, const SplitLimits& limits) {
  std::uint64_t bytes = io_bytes_max;
  if (limits.io_bytes_max != 0) bytes = std::min(bytes, limits.io_bytes_max & ~std::uint64_t{page_bytes - 1});
  if (limits.segments_max != 0 && bytes != 0 && segments_touched(0, bytes, page_shift) > limits.segments_max)
    bytes = limits.segments_max << page_shift;
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(bytes, page_bytes));
}

Result<void> set_geometry(Backing& backing, const GeometryInput& in) {
  auto block = choose_block(backing, in);
  if (!block) return Unexpected(block.error());
  auto range = choose_range(backing, in, *block);
  if (!range) return Unexpected(range.error());
  backing.begin_bytes = range->begin_bytes;
  Geometry& g = backing.geometry;
  g.size_bytes = range->length_bytes;
  g.logical_block_bytes = *block;
  g.io_bytes_max = largest_io(backing, in.st);
  g.dma_alignment = std::max(in.align.memory_bytes, buffered_memory_align_bytes) - 1;
  g.read_only = in.context.read_only;
  g.volatile_cache = g.fua = !in.context.read_only;
  g.sqes_per_request = 1;
  g.pins_data = g.zero_copy = pins_data(backing);
  set_hints(backing, in.st);
  return {};
}

std::optional<std::uint64_t> queue_attribute(dev_t device, const std::string& name) {
  const std::string disk = fmt::format("/sys/dev/block/{}:{}", major(device), minor(device));
  for (const char* queue : {"/queue/", "/../queue/"}) {
    if (const auto value = sysfs_number(disk + queue + name)) return value;
  }
  return std::nullopt;
}

}  // namespace ublkd
