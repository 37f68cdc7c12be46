// DeviceQueue: one ublk queue of one device, served by one hardware queue.
//
// Thread rule: made and destroyed by the control thread while detached; between attach and the
//   on_ended call it belongs to the hardware queue's thread. Counters may be read anywhere.
// Ownership: owns the I/O memory and the target's queue object; the requests lie in the hardware
//   queue's table, the descriptors in a mapping of the device's.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "abi/ublk_cmd.h"
#include "base/fd.h"
#include "mq/device_state.h"
#include "queue/batch_io.h"
#include "stats/counters.h"
#include "ublkd/geometry.h"
#include "ublkd/queue_port.h"

namespace ublkd {

class HwQueue;

struct DeviceQueueSpec {
  std::uint16_t queue_id = 0;
  std::uint32_t slots = 0;
  int ublkc_fd = -1;
  const abi::IoDesc* descs = nullptr;  // of this queue, slots entries
  Geometry geometry;
  std::vector<int> backing_fds;
  bool batch = false;              // by batch commands
  bool zero_copy = false;          // the kernel registers requests' pages; there is no I/O memory
  std::uint32_t first_buffer = 0;  // zero_copy: from HwQueue::take_buffers
};

class DeviceQueue final : public DeviceState, public QueuePort {
 public:
  // Reserves the I/O memory: slots x io_bytes_max, backed by pages as slots are used. None with zero copy.
  [[nodiscard]] static Result<std::unique_ptr<DeviceQueue>> make(HwQueue& hw, const DeviceQueueSpec& spec);
  ~DeviceQueue();

  void set_target(std::unique_ptr<TargetQueue> target);

  [[nodiscard]] io_uring_sqe* sqe(Request& rq, std::uint8_t step) override;
  [[nodiscard]] io_uring_sqe* sqe_big(Request& rq, std::uint8_t step) override;
  [[nodiscard]] io_uring_sqe* sqe_unwatched() override;
  [[nodiscard]] std::uint64_t user_data(const Request& rq, std::uint8_t step) const override;
  void wake_at(std::uint64_t deadline_ns) override;

  // Checks a request against the geometry and fills rq from its descriptor. Returns 0, or the
  // errno (negative) that the kernel's malformed or unsupported request is answered with.
  [[nodiscard]] std::int32_t read_descriptor(Request& rq) const;

  // How far requests may reach. Any thread: a single value, which no other is read with.
  void set_size(std::uint64_t bytes) { size_sectors_.store(bytes >> sector_shift, std::memory_order_relaxed); }

  [[nodiscard]] const OpCounters& ops(Op op) const { return ops_[static_cast<std::size_t>(op)]; }
  [[nodiscard]] std::uint32_t slots() const { return spec_.slots; }
  [[nodiscard]] std::size_t memory_bytes() const { return memory_.size(); }
  // Slots, or batch commands, that the kernel holds, and requests that we hold; 0 once the device has ended here.
  [[nodiscard]] std::uint32_t slots_out() const { return slots_out_.get(); }

 private:
  friend class HwQueue;
  DeviceQueue(HwQueue& hw, const DeviceQueueSpec& spec, Mapping memory, std::unique_ptr<BatchIo> batch);

  // Largest transfer per kernel op number, in sectors; 0: not offered.
  static constexpr std::size_t kernel_ops = 6;
  std::array<std::uint32_t, kernel_ops> sectors_max_{};
  std::atomic<std::uint64_t> size_sectors_{0};
  std::uint64_t block_sector_mask_ = 0;
  const abi::IoDesc* descs_ = nullptr;
  FileRef ublkc_;
  std::uint16_t queue_id_ = 0;
  bool failing_ = false;  // every request is answered with EIO
  bool committing_ = false;  // on the hardware queue's list of those with results for a batch command
  std::unique_ptr<BatchIo> batch_;  // null: a command for each slot
  DeviceQueue* next_committing_ = nullptr;
  std::array<OpCounters, op_count> ops_{};

  HwQueue& hw_;
  DeviceQueueSpec spec_;
  Mapping memory_;
  std::unique_ptr<TargetQueue> target_owned_;
  std::span<Request> requests_;
  std::uint16_t generation_ = 0;
  Gauge slots_out_;
  std::uint64_t wake_ns_ = time_never_ns;
  DeviceQueue* next_timer_ = nullptr;
  bool on_timers_ = false;
  std::uint32_t first_slot_ = 0;       // in the hardware queue's request table
  std::uint32_t first_file_slot_ = 0;  // in its registered file table
  std::uint32_t file_slots_ = 0;
  std::uint32_t pinned_slots_ = 0;     // whose first page is registered memory, from first_buffer_ on
  std::int32_t end_error_ = 0;         // first unexpected result of a ublk command
  std::function<void(std::int32_t)> on_ended_;
};

}  // namespace ublkd
