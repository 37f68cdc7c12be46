#include "ring/ring.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "abi/io_uring_extra.h"
#include "base/fd.h"

namespace ublkd {

namespace {

struct SetupFlag {
  std::uint32_t bit;
  const char* name;
};

// Wanted flags, dropped from the end on EINVAL. DEFER_TASKRUN needs SINGLE_ISSUER, so it goes first.
constexpr std::array wanted_flags{
    SetupFlag{IORING_SETUP_CQSIZE, "CQSIZE"},
    SetupFlag{IORING_SETUP_COOP_TASKRUN, "COOP_TASKRUN"},
    SetupFlag{IORING_SETUP_SUBMIT_ALL, "SUBMIT_ALL"},
    SetupFlag{IORING_SETUP_SINGLE_ISSUER, "SINGLE_ISSUER"},
    SetupFlag{IORING_SETUP_DEFER_TASKRUN, "DEFER_TASKRUN"},
};

std::string refused_by(int err) {
  if (err == ENOSYS) return "this kernel has no io_uring";
  if (err == ENOMEM) {
    rlimit lim{};
    ::getrlimit(RLIMIT_MEMLOCK, &lim);
    return "locked-memory limit is " + std::to_string(lim.rlim_cur) +
           " bytes; raise it (LimitMEMLOCK=infinity in a unit, ulimit -l in a shell)";
  }
  if (err == EMFILE || err == ENFILE) return "too many open files; raise LimitNOFILE / ulimit -n";
  if (err == EPERM || err == EACCES) {
    auto state = read_file("/proc/sys/kernel/io_uring_disabled", 64);
    if (state && !state->empty() && state->front() != '0')
      return "switched off by sysctl kernel.io_uring_disabled=" + state->substr(0, 1) +
             "; set it to 0";
    return "refused by a sandbox (seccomp, container or security policy); allow io_uring_setup";
  }
  return {};
}

}  // namespace

Result<Ring> Ring::make(const RingSpec& spec) {
  std::uint32_t flags = IORING_SETUP_CLAMP;
  for (const SetupFlag& f : wanted_flags) flags |= f.bit;
  if (spec.entry_size != EntrySize::small) flags |= IORING_SETUP_SQE128;
  if (spec.entry_size == EntrySize::big) flags |= IORING_SETUP_CQE32;
  if (spec.polled) flags |= IORING_SETUP_IOPOLL;
  std::size_t keep = wanted_flags.size();
  Ring r;
  for (;;) {
    io_uring_params p{};
    p.flags = flags;
    p.cq_entries = std::min(spec.cq_entries, ring_cq_entries_max);
    const int rc = io_uring_queue_init_params(spec.sq_entries, &r.ring_, &p);
    if (rc == 0) break;
    if (rc == -EINVAL && keep > 0) {
      flags &= ~wanted_flags[--keep].bit;
      continue;
    }
    return fail_errno(-rc, "set up io_uring", std::to_string(spec.sq_entries) + " entries",
                      refused_by(-rc));
  }
  r.sq_entries_ = *r.ring_.sq.kring_entries;
  r.sq_mask_ = *r.ring_.sq.kring_mask;
  r.sqe_shift_ = spec.entry_size != EntrySize::small ? 1 : 0;
  r.cqe_shift_ = spec.entry_size == EntrySize::big ? 1 : 0;
  if ((r.ring_.flags & IORING_SETUP_NO_SQARRAY) == 0)  // newer liburing sets it where the kernel has it
    for (std::uint32_t i = 0; i < r.sq_entries_; ++i) r.ring_.sq.array[i] = i;
  r.enter_fd_ = r.ring_.ring_fd;
  if (io_uring_register_ring_fd(&r.ring_) == 1) {
    r.enter_fd_ = r.ring_.enter_ring_fd;
    r.enter_flags_ = IORING_ENTER_REGISTERED_RING;
  }
  if (spec.files > 0) {
    const int rc = io_uring_register_files_sparse(&r.ring_, spec.files);
    if (rc == 0) r.files_ = spec.files;  // else plain descriptors serve
  }
  if (spec.buffers > 0) {
    const int rc = io_uring_register_buffers_sparse(&r.ring_, spec.buffers);
    if (rc == 0) r.buffers_ = spec.buffers;  // else plain addresses serve
  }
  return r;
}

Ring::Ring(Ring&& other) noexcept
    : ring_(other.ring_),
      sq_tail_(other.sq_tail_),
      sq_mask_(other.sq_mask_),
      sq_entries_(other.sq_entries_),
      sqe_shift_(other.sqe_shift_),
      cqe_shift_(other.cqe_shift_),
      files_(other.files_),
      buffers_(other.buffers_),
      enter_fd_(std::exchange(other.enter_fd_, -1)),
      enter_flags_(other.enter_flags_) {}

Ring::~Ring() {
  if (enter_fd_ >= 0) io_uring_queue_exit(&ring_);
}

int Ring::enter(std::uint32_t wait_count, std::uint64_t now_ns, std::uint64_t deadline_ns) {
  // Release pairs with the kernel's acquire of the tail: entries are written before they are seen.
  __atomic_store_n(ring_.sq.ktail, sq_tail_, __ATOMIC_RELEASE);
  const std::uint32_t to_submit = sq_tail_ - __atomic_load_n(ring_.sq.khead, __ATOMIC_ACQUIRE);
  const std::uint32_t flags = enter_flags_ | IORING_ENTER_GETEVENTS;
  int rc;
  if (wait_count == 0 || deadline_ns == time_never_ns) {
    rc = io_uring_enter2(static_cast<unsigned>(enter_fd_), to_submit, wait_count, flags, nullptr,
                         _NSIG / 8);
  } else {
    const std::uint64_t left = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    __kernel_timespec ts{static_cast<std::int64_t>(left / 1'000'000'000),
                         static_cast<long long>(left % 1'000'000'000)};
    io_uring_getevents_arg arg{};
    arg.sigmask_sz = _NSIG / 8;
    arg.ts = reinterpret_cast<std::uint64_t>(&ts);
    rc = io_uring_enter2(static_cast<unsigned>(enter_fd_), to_submit, wait_count,
                         flags | IORING_ENTER_EXT_ARG, reinterpret_cast<sigset_t*>(&arg), sizeof arg);
  }
  // What was not submitted stays in the SQ for the next turn; an interrupted or timed-out wait is a
  // turn without CQEs; EBUSY and EAGAIN ask us to take CQEs first.
  if (rc >= 0 || rc == -EINTR || rc == -ETIME || rc == -EBUSY || rc == -EAGAIN) return 0;
  return rc;
}

io_uring_sqe* Ring::sqe_after_submit() {
  // Each pass frees the whole SQ unless the kernel is out of memory; it stays so for long only on a
  // machine that is dying.
  constexpr int tries_max = 1000;
  for (int i = 0; i < tries_max; ++i) {
    __atomic_store_n(ring_.sq.ktail, sq_tail_, __ATOMIC_RELEASE);
    const std::uint32_t to_submit = sq_tail_ - __atomic_load_n(ring_.sq.khead, __ATOMIC_ACQUIRE);
    (void)io_uring_enter2(static_cast<unsigned>(enter_fd_), to_submit, 0, enter_flags_, nullptr, _NSIG / 8);
    if (io_uring_sqe* e = next_sqe()) return e;
  }
  check_failed("the kernel takes SQEs", __FILE__, __LINE__);
}

Result<void> Ring::set_file(std::uint32_t slot, int fd) {
  const int rc = io_uring_register_files_update(&ring_, slot, &fd, 1);
  if (rc == 1) return {};
  return fail_errno(rc < 0 ? -rc : EIO, "register file in io_uring slot", std::to_string(slot));
}

Result<void> Ring::set_buffers(std::uint32_t first, std::span<const iovec> buffers) {
  const int rc = io_uring_register_buffers_update_tag(&ring_, first, buffers.data(), nullptr,
                                                      static_cast<unsigned>(buffers.size()));
  if (rc == static_cast<int>(buffers.size())) return {};
  return fail_errno(rc < 0 ? -rc : EIO, "register buffers in io_uring slots from", std::to_string(first));
}

Result<void> Ring::provide_buffers(io_uring_buf_ring* buffers, std::uint32_t count, std::uint16_t group) {
  io_uring_buf_reg reg{};
  reg.ring_addr = reinterpret_cast<std::uint64_t>(buffers);
  reg.ring_entries = count;
  reg.bgid = group;
  const int rc = io_uring_register_buf_ring(&ring_, &reg, 0);
  if (rc == 0) return {};
  return fail_errno(-rc, "provide buffers to io_uring as group", std::to_string(group));
}

std::string Ring::setup_flag_names() const {
  std::string s;
  for (const SetupFlag& f : wanted_flags)
    if ((ring_.flags & f.bit) != 0) s += (s.empty() ? "" : "|") + std::string(f.name);
  if (sqe_shift_ != 0) s += "|SQE128";
  if (cqe_shift_ != 0) s += "|CQE32";
  if ((ring_.flags & IORING_SETUP_IOPOLL) != 0) s += "|IOPOLL";
  return s;
}

bool ring_releases_single_files() {
  auto ring = Ring::make({.sq_entries = 4, .cq_entries = 8, .files = 2});
  if (!ring || !ring->has_files()) return false;
  std::array<int, 2> idle_ends{};
  std::array<int, 2> probe_ends{};
  if (::pipe2(idle_ends.data(), O_CLOEXEC) != 0) return false;
  Fd idle_read(idle_ends[0]), idle_write(idle_ends[1]);
  if (::pipe2(probe_ends.data(), O_CLOEXEC) != 0) return false;
  Fd probe_read(probe_ends[0]), probe_write(probe_ends[1]);
  if (!ring->set_file(0, idle_read.get()) || !ring->set_file(1, probe_write.get())) return false;
  // A poll on slot 0 stays pending: the idle device. Slot 1 is then cleared: the removed device.
  io_uring_sqe* e = ring->sqe();
  io_uring_prep_poll_add(e, 0, POLLIN);
  e->flags |= IOSQE_FIXED_FILE;
  if (ring->enter(0, 0, time_never_ns) != 0) return false;
  probe_write.reset();
  if (!ring->set_file(1, -1)) return false;
  // The last reference to the write end is gone exactly when the read end reports a hang-up.
  pollfd p{probe_read.get(), POLLIN, 0};
  constexpr int settle_ms = 50;
  return ::poll(&p, 1, settle_ms) == 1 && (p.revents & POLLHUP) != 0;
}

}  // namespace ublkd
