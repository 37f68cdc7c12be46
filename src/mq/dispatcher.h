// Dispatcher: gives tags to the requests that wait and hands them to their targets, as lists.
//
//   arrive(rq) -> device.waiting -> grant -> one batch of tags -> inflight -> queue_rqs(list)
//                      ^                                                         | leftovers
//                      +---------------------------------------------------------+
//
// Thread rule: the hardware queue's thread.
// Ownership: owns the tag pool and the inflight table; refers to requests and devices.
// Invariants (checked):
//   1. Sum of active over all devices = depth - free.
//   2. inflight[tag] is the request that holds tag, null when it is free. Written here only.
//   3. After dispatch() returns no tag is free while a device waits that has not declined.
#pragma once

#include <cstdint>
#include <vector>

#include "mq/device_state.h"
#include "mq/tag_pool.h"
#include "ublkd/request.h"

namespace ublkd {

inline constexpr std::uint64_t decline_retry_ns = 1'000'000;

class Dispatcher {
 public:
  explicit Dispatcher(std::uint32_t depth) : pool_(depth), inflight_(depth, nullptr) {}

  // A new request of device, checked and in state arrived.
  void arrive(DeviceState& device, Request& rq) {
    device.waiting.push_back(rq);
    ++waiting_;
    if (!device.ready) make_ready(device);
  }

  // Offers waiting requests to their targets until nothing waits, no tag is free, or every target
  // declined. Requests that targets complete meanwhile are on done, which is reaped here to get
  // their tags back; all of it is moved to reaped.
  void dispatch(RequestList& done, RequestList& reaped, std::uint64_t now_ns);

  // Puts the tags of done requests; they move to reaped.
  void reap(RequestList& done, RequestList& reaped);

  // Takes all of device's waiting requests, in order; the device leaves the ready list.
  RequestList take_waiting(DeviceState& device);

  // Time at which a target that declined should be asked again; time_never_ns when none did.
  [[nodiscard]] std::uint64_t retry_deadline_ns() const;

  [[nodiscard]] const TagPool& pool() const { return pool_; }
  [[nodiscard]] std::uint32_t waiting() const { return waiting_; }
  [[nodiscard]] const std::vector<Request*>& inflight() const { return inflight_; }

 private:
  void make_ready(DeviceState& device);
  std::uint32_t grant(std::uint64_t now_ns);
  std::uint32_t grant_first_come(std::uint32_t free);
  bool run_granted(std::uint64_t now_ns);
  RequestList start(DeviceState& device, TagBatch& batch, std::uint32_t& left);
  static void count_taken(DeviceState& device, std::uint32_t n);
  void take_back(DeviceState& device, RequestList& leftovers, std::uint64_t now_ns);
  void unlink_idle();

  TagPool pool_;
  std::vector<Request*> inflight_;
  DeviceState* ready_head_ = nullptr;
  DeviceState* ready_tail_ = nullptr;
  std::uint32_t waiting_ = 0;  // requests without a tag, over all devices
};

}  // namespace ublkd
