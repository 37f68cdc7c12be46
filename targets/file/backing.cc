#include "targets/file/backing.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/log.h"
#include "targets/file/backing_geometry.h"
#include "targets/file/create_file.h"

namespace ublkd {

namespace {

const char* kind_word(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a fifo";
  if (S_ISCHR(mode)) return "a character device";
  if (S_ISSOCK(mode)) return "a socket";
  return "of an unknown kind";
}

// The kind is looked at before open: opening a fifo blocks, opening a character device may act.
Result<struct stat> look(const FileOptions& options) {
  struct stat st {};
  if (::stat(options.path.c_str(), &st) != 0)
    return fail_errno(
        errno, "open", options.path,
        errno == ENOENT && options.create == CreateMode::never ? "create: sparse makes it, with a size" : "");
  if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
    return fail(ErrorKind::invalid, "open", options.path,
                fmt::format("it is {}; the file target takes a regular file or a block device",
                            kind_word(st.st_mode)));
  return st;
}

// Makes the file when it is to be made and is not there; else an empty object.
Result<CreatedFile> create_if_asked(const FileOptions& options, bool read_only) {
  struct stat st {};
  if (options.create == CreateMode::never || ::lstat(options.path.c_str(), &st) == 0) return CreatedFile();
  if (read_only)
    return fail(ErrorKind::invalid, "create", options.path,
                "the device is read_only: its file must be there already");
  if (!options.size_bytes)
    return fail(ErrorKind::invalid, "create", options.path, "size is missing: how large is the file to be?");
  return CreatedFile::make(options.path, *options.size_bytes, options.create);
}

Result<Fd> open_with(const std::string& path, int flags) {
  auto fd = open_file(path, flags);
  if (fd) return fd;
  Error& error = fd.error();
  if (error.errno_value == EBUSY) error.advice = "busy: it is mounted, or in use by another program";
  if (error.kind == ErrorKind::permission && (flags & O_ACCMODE) == O_RDWR)
    error.advice = "it cannot be written; set read_only: true, or grant the right";
  return fd;
}

int open_flags(BackingKind kind, bool read_only) {
  int flags = read_only ? O_RDONLY : O_RDWR;
  if (kind == BackingKind::block && !read_only) flags |= O_EXCL;  // refused when mounted or claimed
  return flags;
}

// O_NOATIME where we may, so that a read-only backing keeps its time stamps.
Result<Fd> open_quietly(const std::string& path, int flags) {
  if ((flags & O_ACCMODE) == O_RDONLY) {
    auto fd = open_file(path, flags | O_NOATIME);
    if (fd || fd.error().errno_value != EPERM) return fd;
  }
  return open_with(path, flags);
}

// Opens with direct I/O where that is asked and possible; align is empty for buffered.
struct Opened {
  Fd fd;
  DirectAlignment align;
};
Result<Opened> open_io(const FileOptions& options, int flags) {
  if (options.io != IoMode::buffered) {
    auto fd = open_quietly(options.path, flags | O_DIRECT);
    if (!fd && fd.error().errno_value != EINVAL) return Unexpected(fd.error());
    if (fd) {
      const DirectAlignment align = direct_alignment(fd->get());
      if (align.offset_bytes != 0) return Opened{std::move(*fd), align};
    }
    if (options.io == IoMode::direct)
      return fail(
          ErrorKind::unsupported, "open", options.path,
          fmt::format("its file system has no direct I/O with blocks of at most {} bytes; use io: buffered",
                      page_bytes));
  }
  auto fd = open_quietly(options.path, flags);
  if (!fd) return Unexpected(fd.error());
  return Opened{std::move(*fd), {}};
}

Result<std::uint64_t> size_of(int fd, BackingKind kind, const struct stat& st, const std::string& path) {
  if (kind == BackingKind::regular) return static_cast<std::uint64_t>(st.st_size);
  std::uint64_t bytes = 0;
  if (::ioctl(fd, BLKGETSIZE64, &bytes) != 0) return fail_errno(errno, "read the size of", path);
  return bytes;
}

Result<std::shared_ptr<void>> claim(const OpenContext& context, const BackingClaims::Claim& claim,
                                    const std::string& path) {
  if (context.claims == nullptr) return std::shared_ptr<void>();
  return context.claims->claim(claim, context.device_name, path);
}

Result<void> check_writable(int fd, const Backing& backing) {
  int read_only = 0;
  if (backing.kind == BackingKind::block && ::ioctl(fd, BLKROGET, &read_only) == 0 && read_only != 0)
    return fail(ErrorKind::permission, "open", backing.path,
                "the block device is read-only; set read_only: true");
  return {};
}

// Everything after the file is known to be there.
Result<Backing> open_existing(const FileOptions& options, const OpenContext& context) {
  auto st = look(options);
  if (!st) return Unexpected(st.error());
  Backing b;
  b.kind = S_ISBLK(st->st_mode) ? BackingKind::block : BackingKind::regular;
  b.path = options.path;
  const bool writable = !context.read_only;
  if (b.kind == BackingKind::block) {  // before open, whose EBUSY could not name the other device
    auto c = claim(context, {st->st_rdev, 0, 0, device_bytes_max, writable}, b.path);
    if (!c) return Unexpected(c.error());
    b.claim = std::move(*c);
  }
  auto opened = open_io(options, open_flags(b.kind, context.read_only));
  if (!opened) return Unexpected(opened.error());
  b.fd = std::move(opened->fd);
  b.direct = opened->align.offset_bytes != 0;

  struct stat now {};
  if (::fstat(b.fd.get(), &now) != 0) return fail_errno(errno, "stat", b.path);
  if (now.st_dev != st->st_dev || now.st_ino != st->st_ino)
    return fail(ErrorKind::busy, "open", b.path, "it was replaced while it was opened; try again");
  if (writable)
    if (auto r = check_writable(b.fd.get(), b); !r) return Unexpected(r.error());
  auto bytes = size_of(b.fd.get(), b.kind, now, b.path);
  if (!bytes) return Unexpected(bytes.error());
  if (options.size_bytes && *options.size_bytes != *bytes)
    return fail(ErrorKind::invalid, "open", b.path,
                fmt::format("it has {} bytes, but size says {}; leave size out to use it as it is", *bytes,
                            *options.size_bytes));
  if (auto r = set_geometry(b, {options, context, opened->align, now, *bytes}); !r)
    return Unexpected(r.error());
  if (b.kind == BackingKind::block) return b;

  auto c = claim(context, {now.st_dev, now.st_ino, b.begin_bytes, b.geometry.size_bytes, writable}, b.path);
  if (!c) return Unexpected(c.error());
  b.claim = std::move(*c);
  auto lock = RangeLock::take(b.fd.get(), writable ? LockKind::exclusive : LockKind::shared, b.begin_bytes,
                              b.geometry.size_bytes, b.path);
  if (!lock) return Unexpected(lock.error());
  b.lock = std::move(*lock);
  return b;
}

}  // namespace

Result<Backing> open_backing(const FileOptions& options, const OpenContext& context) {
  auto created = create_if_asked(options, context.read_only);
  if (!created) return Unexpected(created.error());
  auto backing = open_existing(options, context);
  if (backing) backing->created = std::move(*created);
  return backing;
}

}  // namespace ublkd
