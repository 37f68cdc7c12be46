// DeviceState: one device's side of one hardware queue, as the dispatcher and the sharing see it.
//
// Thread rule: the hardware queue's thread; counters may be read anywhere.
// Invariants:
//   1. tags_taken - tags_put = held, the requests that hold a tag: counted where tags are taken and put, nowhere else.
//   2. On the dispatcher's ready list exactly while waiting is not empty (between two turns).
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "stats/counters.h"
#include "ublkd/request.h"
#include "ublkd/target.h"

namespace ublkd {

// Sizes of batches by power of two: bucket i counts 2^(i-1) < n <= 2^i.
struct BatchHistogram {
  static constexpr std::size_t buckets = 13;  // up to depth_max
  std::array<Counter, buckets> counts;
  void record(std::uint32_t n) { counts[static_cast<std::size_t>(std::bit_width(n - 1))].add(1); }  // n: 1 .. depth_max
};

// Whether a comes before b, of orders or times that wrap around and lie at most 2^31 apart.
[[nodiscard]] constexpr bool older(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) < 0; }

inline constexpr std::uint64_t no_promise = ~std::uint64_t{0};

// What fair_share.h keeps of a device. Units: tag-nanoseconds are tags held, times how long.
struct ShareState {
  double clock = 0;           // in its weight's tag-ns: what was added to it besides its tag-time / weight
  std::uint64_t area_base = 0;  // tag-time at which its clock began
  double hold_ns = 0;         // running mean of the time it holds a tag, made of ...
  double hold_area_sum = 0, hold_puts_sum = 0;  // ... the past, fading, and what came since:
  std::uint64_t hold_area_seen = 0, hold_puts_seen = 0;
  double weight_inverse = 1;
  std::uint32_t weight = 1;
  std::uint32_t peak_before = 0, peak_now = 0;  // largest held + waiting in the last whole window, and in this one
  std::uint64_t peak_since_ns = 0;
  std::uint32_t floor = 0;       // whole tags of its share, no more than its peak
  std::uint32_t kept = 0;        // tags kept for it while it does not ask: its share, rounded up
  std::uint64_t returned_ns = 0;  // when it last became active again within known_for_ns; 0: never
  std::uint64_t promise = no_promise;  // grants to others after which it is next
  bool waiting = false;          // on the ready list
  bool active = false;
};

struct DeviceState {
  RequestList waiting;           // arrived, no tag yet; the plug of this turn is its tail
  TargetQueue* target = nullptr;
  DeviceState* next_ready = nullptr;
  std::uint32_t held = 0;        // requests with a tag
  std::uint32_t elsewhere = 0;   // of a set's device: requests that wait in its queues' own lists ...
  std::uint32_t elsewhere_order = 0;  // ... and the order of the oldest
  std::uint32_t number = 0;      // in its set, where the tags are the set's
  bool changed = false;          // since its set was told
  std::uint32_t asked = 0;       // within one pass of dispatch: requests it has waiting
  std::uint32_t granted = 0;     // within one pass: tags it may take
  Request* next_grant = nullptr;  // within one pass: first waiting request without a grant
  std::uint64_t retry_ns = 0;
  bool ready = false;            // on the ready list
  bool declined = false;         // the target left requests; not offered until it completes one, or at retry_ns
  std::uint64_t timeout_ns = 0;  // of a request, from its start; 0: none
  ShareState share;

  [[nodiscard]] std::uint32_t waits() const { return waiting.size() + elsewhere; }
  [[nodiscard]] std::uint32_t first_order() const {
    return waiting.empty() ? elsewhere_order : waiting.front()->order;
  }

  Counter tags_taken;
  Counter tags_put;
  Counter peak;                  // largest held so far
  Counter waiting_now;           // size of waiting after the last turn
  Counter leftovers;             // requests a target handed back
  Counter timeouts;              // requests that were older than timeout_ns
  BatchHistogram batch_whole;    // batches that got what they asked ...
  BatchHistogram part_asked, part_got;  // ... and the others
  Counter tag_time_ns;           // tag-ns up to touched_ns
  Counter waited_ns;             // time with requests waiting
  Counter starved_ns;            // time with requests waiting and no tag
  Counter touched_ns;            // the times above are counted up to here
  Counter last_use_ns;           // a tag was taken or put; 0: never
  Counter idle_changes;          // times it became active
};

}  // namespace ublkd
