// DeviceState: one device's side of one hardware queue, as the dispatcher sees it.
//
// Thread rule: the hardware queue's thread writes; counters may be read anywhere.
// Invariants:
//   1. tags_taken - tags_put = active.
//   2. On the dispatcher's ready list exactly while waiting is not empty.
#pragma once

#include <cstdint>

#include "stats/counters.h"
#include "ublkd/request.h"
#include "ublkd/target.h"

namespace ublkd {

struct DeviceState {
  RequestList waiting;           // arrived, no tag yet; the plug of this turn is its tail
  TargetQueue* target = nullptr;
  DeviceState* next_ready = nullptr;
  bool ready = false;            // on the ready list
  bool declined = false;         // the target left requests; not offered until it completes one ...
  std::uint64_t retry_ns = 0;    // ... or this time has come
  std::uint32_t granted = 0;     // within one pass of dispatch
  Request* next_grant = nullptr;  // first waiting request without a grant, within one pass

  Gauge active;                  // requests that hold a tag
  Gauge peak;                    // largest active so far
  Gauge waiting_now;             // size of waiting after the last turn
  Counter tags_taken;
  Counter tags_put;
  Counter leftovers;             // requests a target handed back
};

}  // namespace ublkd
