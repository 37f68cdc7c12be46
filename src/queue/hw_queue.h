// HwQueue: a hardware queue: one thread, one io_uring, one tag pool, serving queue i of every device
// of its tag set.
//
//   wait()      one io_uring_enter: submits the last turn's SQEs, waits for a CQE, a message or a deadline
//   arrive()    CQEs -> waiting requests | target completions | messages
//   dispatch()  tags -> queue_rqs -> done
//   commit()    done -> COMMIT_AND_FETCH; statistics
//
// Thread rule: start, post, reserve, attach, fail_device and the getters on the control thread; the rest is the
//   queue's own thread. Messages cross by a lock-free list and an eventfd.
// Invariants:
//   1. One io_uring_enter per turn, unless a turn's SQEs exceed the SQ.
//   2. Nothing allocates, locks or blocks between two messages.
//   3. CQEs of a generation that is gone are dropped.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "abi/user_data.h"
#include "base/fd.h"
#include "mq/dispatcher.h"
#include "queue/device_queue.h"
#include "queue/range_allocator.h"
#include "ring/ring.h"

namespace ublkd {

// Slots whose first page is registered with the ring, and so pinned: 16 MiB for a hardware queue at most.
inline constexpr std::uint32_t pinned_slots_max = 4096;

// Where the tables of a queue come from: bytes, and what for. Error no_memory when there is none.
using MapMemory = std::function<Result<Mapping>(std::size_t, const std::string&)>;

struct HwQueueSpec {
  std::string set_name;
  std::uint32_t index = 0;
  std::uint32_t depth = 128;             // tags
  std::uint32_t slots_total_max = 8192;  // slots of all devices
  std::uint32_t files_max = 0;           // registered file slots; 0: plain descriptors
  bool register_ublkc = false;           // only where slots are released one by one
  bool register_buffers = false;         // the same
  EntrySize entry_size = EntrySize::small;
  std::vector<std::uint32_t> cpus;       // pinned to these; empty: anywhere
  ShareParams share;
  SetShare* set_share = nullptr;         // scope set: whose tags are taken; outlives the queue
  MapMemory map_memory = Mapping::populated;
};

class HwQueue final : public QueueWaker {
 public:
  // Starts the thread; returns when its ring stands, or with the reason it cannot.
  [[nodiscard]] static Result<std::unique_ptr<HwQueue>> start(const HwQueueSpec& spec);

  // Ends the thread. Precondition: no device is attached.
  ~HwQueue();
  HwQueue(const HwQueue&) = delete;
  HwQueue& operator=(const HwQueue&) = delete;

  // Makes the queue's thread run a turn. Any thread.
  void wake() override;

  // Runs f on the queue's thread, between two turns.
  void post(std::function<void()> f);

  // A range of the ring's table of registered buffers, one for each of so many slots; nothing when there is none left,
  // or the kernel registers none. put_buffers gives it back, after the device has ended.
  [[nodiscard]] std::optional<std::uint32_t> take_buffers(std::uint32_t slots);
  void put_buffers(std::uint32_t first) { buffer_ranges_.put(first); }

  // Reserves table ranges for dq; error limit names what is full. Given back by release_slots.
  [[nodiscard]] Result<void> reserve(DeviceQueue& dq);
  void release(DeviceQueue& dq);

  // Registers the files and sends every FETCH. done runs on the queue's thread once they are
  // submitted; on_ended, there too, once the kernel has given every command back (argument: first
  // unexpected result of a command, or 0): dq is then detached.
  void attach(DeviceQueue& dq, std::function<void(Result<void>)> done, std::function<void(std::int32_t)> on_ended);

  // Answers everything of dq with EIO from now on, and asks its target to end what is in flight.
  void fail_device(DeviceQueue& dq);

  // How the devices share the tags, from the next turn on.
  void configure(const ShareParams& share);
  void set_weight(DeviceQueue& dq, std::uint32_t weight);

  // Asks the targets to end the requests that are older than their device's timeout, once each; returns how many.
  std::uint32_t end_expired(std::uint64_t now_ns);

  struct Snapshot {
    std::uint32_t depth, free, waiting, thread_id, cq_overflows, devices;
    std::uint64_t turns;
    std::string ring_flags;
    bool io_flusher;
  };
  [[nodiscard]] Snapshot snapshot() const;
  [[nodiscard]] const HwQueueSpec& spec() const { return spec_; }

 private:
  friend class DeviceQueue;
  struct Message {
    std::function<void()> run;
    Message* next = nullptr;
  };

  explicit HwQueue(const HwQueueSpec& spec);

  void thread_main(std::function<void(Result<void>)> ready);
  Result<void> set_up();
  [[nodiscard]] Ring& ring_of(const DeviceQueue& dq) {
    if (!dq.spec_.geometry.polled) return *ring_;
    ++polled_out_;
    return *poll_ring_;
  }
  Result<void> make_poll_ring();
  void wait();
  void arrive();
  void dispatch();
  void commit();

  void on_cqe(const io_uring_cqe& cqe);
  void on_ublk_cqe(Request& rq, std::int32_t result);
  void on_other_cqe(const io_uring_cqe& cqe);
  void on_batch_cqe(const io_uring_cqe& cqe);
  void on_batch_fetch(DeviceQueue& dq, const io_uring_cqe& cqe);
  void on_batch_commit(DeviceQueue& dq, std::int32_t result);
  void arrive_request(DeviceQueue& dq, Request& rq);
  void slot_ended(DeviceQueue& dq, std::int32_t result);
  void drop_slots(DeviceQueue& dq, std::uint32_t count);
  void device_ended(DeviceQueue& dq);
  void send_slots(DeviceQueue& dq);
  void commit_later(DeviceQueue& dq);
  void commit_batches();
  void send_fetch(DeviceQueue& dq);
  static void name_ublkc(io_uring_sqe& e, const DeviceQueue& dq);
  io_uring_sqe& batch_sqe(const DeviceQueue& dq, user_data::Kind kind);
  void commit_request(DeviceQueue& dq, Request& rq, std::int32_t result, std::uint32_t command);
  void run_timers();
  void arm_inbox();
  void run_messages();
  Result<void> attach_now(DeviceQueue& dq);
  Result<void> register_files(DeviceQueue& dq);
  void drop_files(DeviceQueue& dq);
  void reserve_pinned(DeviceQueue& dq);
  void register_buffers(DeviceQueue& dq);
  void drop_buffers(DeviceQueue& dq);
  [[nodiscard]] bool is_attached(const DeviceQueue& dq) const;
  void fail_now(DeviceQueue& dq);
  void end_if_still(Tag tag, std::uint32_t mark);

  HwQueueSpec spec_;
  std::unique_ptr<Ring> ring_;
  std::unique_ptr<Ring> poll_ring_;  // made for the first device that wants it
  std::uint32_t polled_out_ = 0;     // its commands that have not completed
  Dispatcher dispatcher_;
  Request* table_ = nullptr;  // slots_total_max requests
  std::uint64_t now_ns_ = 0;
  std::uint32_t turn_ = 0;
  RequestList done_;    // completed, tag not yet put
  RequestList reaped_;  // completed, tag put, to be committed
  DeviceQueue* timers_ = nullptr;
  DeviceQueue* committing_ = nullptr;  // with results of this turn for a batch command
  std::uint32_t commits_unseen_ = 0;   // batch commits whose CQE was not seen: it comes with their submission
  Gauge free_now_, waiting_now_;
  Counter turns_;

  Mapping table_memory_;
  Fd event_;
  std::uint64_t event_value_ = 0;
  std::atomic<Message*> inbox_{nullptr};  // newest first; pushed by control, emptied by the queue
  bool stopping_ = false;
  std::uint16_t last_generation_ = 0;
  Gauge thread_id_, overflows_, devices_;
  std::atomic<bool> io_flusher_{false};
  std::string ring_flags_;  // written before start() returns
  std::vector<DeviceQueue*> attached_;
  std::vector<std::uint32_t> expired_marks_;  // by tag, what end_expired has dealt with; control thread
  RangeAllocator slot_ranges_;  // control thread
  RangeAllocator file_ranges_;  // control thread
  RangeAllocator buffer_ranges_;  // control thread
  std::uint32_t pinned_slots_ = 0;  // control thread
  std::thread thread_;
};

}  // namespace ublkd
