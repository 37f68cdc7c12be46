// Dispatcher: gives tags to the requests that wait and hands them to their targets, as lists.
//
//   arrive(rq) -> device.waiting -> grant -> one batch of tags -> inflight -> queue_rqs(list)
//                      ^            (FairShare)                                  | leftovers
//                      +---------------------------------------------------------+
//
// Thread rule: the hardware queue's thread; inflight() may be scanned by any.
// Ownership: owns the tag pool, the sharing and the inflight table; refers to requests and devices. With scope set the
//   pool and the sharing are the set's (set_share.h), and its own only count.
// Invariants (checked):
//   1. Sum of held over all devices = depth - free, where the pool is its own.
//   2. The inflight table names the request that holds a tag. Written here only.
//   3. After dispatch() returns no tag is free while a device waits, unless its target declined or the sharing
//      withholds the tag; wake_ns() then says until when.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mq/device_state.h"
#include "mq/fair_share.h"
#include "mq/inflight_table.h"
#include "mq/set_share.h"
#include "mq/tag_pool.h"
#include "ublkd/request.h"

namespace ublkd {

inline constexpr std::uint64_t decline_retry_ns = 1'000'000;

class Dispatcher {
 public:
  explicit Dispatcher(std::uint32_t depth) : pool_(depth), share_(depth), inflight_(depth), tags_(depth) {}

  // Takes tags from set's pool, as its queue number queue.
  Dispatcher(SetShare& set, std::uint32_t queue)
      : pool_(1),
        share_(set.pool().depth()),
        inflight_(set.pool().depth()),
        tags_(set.pool().depth()),
        set_(&set),
        set_tags_(std::in_place, set.pool(), queue, set.queues()),
        queue_(queue) {}

  // A device takes part from add to remove; remove needs it to hold and wait for nothing. With scope set, device.number
  // is its number there.
  void add(DeviceState& device);
  void remove(DeviceState& device);
  void configure(const ShareParams& params) { share_.configure(params); }
  void set_weight(DeviceState& device, std::uint32_t weight) { share_.set_weight(device, weight); }

  // A new request of device, checked and in state arrived; its arrived_ns is this turn's. A flush goes before what
  // waits: it covers what has completed, so it may pass writes that have not even started.
  void arrive(DeviceState& device, Request& rq) {
    if (!device.ready) {
      share_.begin_waiting(device, rq.arrived_ns);
      make_ready(device);
    }
    ++waiting_;
    if (rq.op != Op::flush || device.waiting.empty()) return device.waiting.push_back(rq);
    rq.order = device.waiting.front()->order;
    device.waiting.push_front(rq);
  }

  // Offers waiting requests to their targets until nothing waits, no tag is free, or every target
  // declined. Requests that targets complete meanwhile are on done, which is reaped here to get
  // their tags back; all of it is moved to reaped.
  void dispatch(RequestList& done, RequestList& reaped, std::uint64_t now_ns);

  // Puts the tags of done requests; they move to reaped.
  void reap(RequestList& done, RequestList& reaped, std::uint64_t now_ns);

  // Takes all of device's waiting requests, in order; the device leaves the ready list.
  RequestList take_waiting(DeviceState& device);

  // When dispatch should run again though nothing else happens: a target that declined may be asked, or a tag that
  // was withheld be given. time_never_ns: not before the next event.
  [[nodiscard]] std::uint64_t wake_ns() const;

  [[nodiscard]] const TagPool& pool() const { return pool_; }  // scope queue
  [[nodiscard]] std::uint32_t free() const { return set_ == nullptr ? pool_.free() : set_->pool().free(); }
  [[nodiscard]] const FairShare& share() const { return share_; }
  [[nodiscard]] std::uint32_t waiting() const { return waiting_; }
  [[nodiscard]] const InflightTable& inflight() const { return inflight_; }

 private:
  void make_ready(DeviceState& device);
  bool run_granted(std::uint64_t now_ns);
  RequestList start(DeviceState& device, const Tag* tags, std::uint64_t now_ns);
  // Of a set's pool: when freed_ is put into it.
  void put(Tag tag) {
    if (set_ == nullptr)
      pool_.put(tag);
    else
      freed_.add(tag);
  }
  void dispatch_from_set(RequestList& done, RequestList& reaped, std::uint64_t now_ns);
  std::uint32_t ask_set(std::uint64_t now_ns);
  std::uint32_t take_from_set(std::uint32_t granted);
  void tell_set();
  void tell_set_of(DeviceState& device);
  void mark_changed(DeviceState& device);
  void take_back(DeviceState& device, RequestList& leftovers, std::uint64_t now_ns);
  void unlink_idle();

  TagPool pool_;
  FairShare share_;
  InflightTable inflight_;
  std::vector<Tag> tags_;  // taken for one pass
  TagGather freed_;        // scope set; empty between two calls
  DeviceState* ready_head_ = nullptr;
  DeviceState* ready_tail_ = nullptr;
  std::uint32_t waiting_ = 0;  // requests without a tag, over all devices

  SetShare* set_ = nullptr;    // scope set
  std::optional<SharedTags> set_tags_;
  std::uint32_t queue_ = 0;
  std::vector<DeviceState*> changed_;  // since the set was told
  bool marked_waiting_ = false;        // our bit in the set's waiters
  bool unclaimed_ = false;             // an offer was given up: the set must look again
};

}  // namespace ublkd
