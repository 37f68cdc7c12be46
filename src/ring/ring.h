// Ring: one io_uring, set up by a ladder of flags, entered once per turn.
//
// Thread rule: made, entered and destroyed by one thread (SINGLE_ISSUER).
// Ownership: owns the ring, its tables of registered files and buffers, and its registered descriptor.
// Invariants:
//   1. SQ index i always names SQE i: there is no array, or it is written once, so that publishing a
//      tail is enough to submit.
//   2. sqe() never returns null: a full SQ is submitted and the entry taken after.
#pragma once

#include <liburing.h>
#include <sys/uio.h>

#include <cstdint>
#include <span>
#include <string>

#include "ublkd/queue_port.h"
#include "ublkd/result.h"

namespace ublkd {

// Of all entries of a ring: SQEs of 64 bytes and CQEs of 16, SQEs of 128, or SQEs of 128 and CQEs of 32.
enum class EntrySize : std::uint8_t { small, big_sqe, big };

struct RingSpec {
  std::uint32_t sq_entries = 64;
  std::uint32_t cq_entries = 128;  // at least what can be outstanding; kernel's limit 65536
  std::uint32_t files = 0;         // slots of the registered file table; 0: none
  std::uint32_t buffers = 0;       // slots of the registered buffer table, at most 16384; 0: none
  EntrySize entry_size = EntrySize::small;
  bool polled = false;  // completions are looked for by enter(0), not announced by interrupts
};

inline constexpr std::uint32_t ring_sq_entries_max = 32768;  // kernel: IORING_MAX_ENTRIES
inline constexpr std::uint32_t ring_cq_entries_max = 65536;
inline constexpr std::uint32_t ring_buffers_max = 16384;  // kernel: IORING_MAX_REG_BUFFERS

class Ring {
 public:
  // Errors: permission (io_uring refused: says by what), no_memory (names the limit), io.
  [[nodiscard]] static Result<Ring> make(const RingSpec& spec);

  Ring(Ring&& other) noexcept;
  Ring& operator=(Ring&& other) = delete;
  ~Ring();

  // An SQE whose first 64 bytes are zero: all that commands of that size have.
  [[nodiscard]] io_uring_sqe* sqe() {
    io_uring_sqe* e = next_sqe();
    if (__builtin_expect(e == nullptr, 0)) e = sqe_after_submit();
    *e = io_uring_sqe{};
    return e;
  }

  // A zeroed SQE of 128 bytes. Precondition: entry_size is not small.
  [[nodiscard]] io_uring_sqe* sqe_big() {
    io_uring_sqe* e = sqe();
    e[1] = io_uring_sqe{};
    return e;
  }

  // Submits all SQEs and waits for one CQE, or not at all, or until deadline_ns (CLOCK_MONOTONIC;
  // now_ns is the caller's clock). Returns 0, or -errno when the ring cannot go on.
  int enter(std::uint32_t wait_count, std::uint64_t now_ns, std::uint64_t deadline_ns);

  // Calls f(cqe) for each CQE there is now; they are given back to the kernel after the last call.
  // Returns how many.
  template <typename F>
  std::uint32_t for_each_cqe(F&& f) {
    std::uint32_t head = *ring_.cq.khead;  // only we write it
    const std::uint32_t tail = __atomic_load_n(ring_.cq.ktail, __ATOMIC_ACQUIRE);
    const std::uint32_t count = tail - head;
    const std::uint32_t mask = *ring_.cq.kring_mask;
    for (; head != tail; ++head) f(ring_.cq.cqes[static_cast<std::size_t>(head & mask) << cqe_shift_]);
    // Release pairs with the kernel's acquire of the head: entries are read before their reuse.
    __atomic_store_n(ring_.cq.khead, head, __ATOMIC_RELEASE);
    return count;
  }

  // Has event_fd (an eventfd) signalled when there is something to enter for. 0 or -errno.
  [[nodiscard]] int watch_with(int event_fd) { return io_uring_register_eventfd(&ring_, event_fd); }

  // Puts fd into a slot of the registered table, or clears it with fd -1.
  [[nodiscard]] Result<void> set_file(std::uint32_t slot, int fd);
  [[nodiscard]] bool has_files() const { return files_ > 0; }

  // Puts memory into slots of the registered table from first on; an empty iovec clears its slot. The kernel
  // pins the pages until then. After an error some of the slots may be set.
  [[nodiscard]] Result<void> set_buffers(std::uint32_t first, std::span<const iovec> buffers);
  [[nodiscard]] bool has_buffers() const { return buffers_ > 0; }

  // Gives the kernel a ring of so many buffers (a power of two; on a page) to choose from, as this group.
  [[nodiscard]] Result<void> provide_buffers(io_uring_buf_ring* buffers, std::uint32_t count, std::uint16_t group);
  void withdraw_buffers(std::uint16_t group) { (void)io_uring_unregister_buf_ring(&ring_, group); }

  [[nodiscard]] std::uint32_t cq_overflows() const { return *ring_.cq.koverflow; }
  [[nodiscard]] std::uint32_t setup_flags() const { return ring_.flags; }
  [[nodiscard]] std::string setup_flag_names() const;
  [[nodiscard]] int fd() const { return ring_.ring_fd; }

 private:
  Ring() = default;
  [[nodiscard]] io_uring_sqe* next_sqe() {
    // Pairs with the kernel's release of the head: it has read entries before head.
    const std::uint32_t head = __atomic_load_n(ring_.sq.khead, __ATOMIC_ACQUIRE);
    if (sq_tail_ - head >= sq_entries_) return nullptr;
    io_uring_sqe* e = &ring_.sq.sqes[static_cast<std::size_t>(sq_tail_ & sq_mask_) << sqe_shift_];
    ++sq_tail_;
    return e;
  }
  io_uring_sqe* sqe_after_submit();

  io_uring ring_{};
  std::uint32_t sq_tail_ = 0;
  std::uint32_t sq_mask_ = 0;
  std::uint32_t sq_entries_ = 0;
  std::uint32_t sqe_shift_ = 0;
  std::uint32_t cqe_shift_ = 0;
  std::uint32_t files_ = 0;
  std::uint32_t buffers_ = 0;
  int enter_fd_ = -1;
  std::uint32_t enter_flags_ = 0;
};

// Whether a registered file's slot is released at once when cleared, although an older request on
// another slot is still pending. Kernels before 6.13 do not: a registered /dev/ublkcN then keeps
// its device alive until the whole ring is idle. Found by trying, on a small ring of its own.
[[nodiscard]] bool ring_releases_single_files();

}  // namespace ublkd
