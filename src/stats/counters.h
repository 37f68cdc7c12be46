// Counters with one writer and any number of readers.
//
// Thread rule: add() and set() on the owner's thread; get() anywhere. Relaxed: a reader gets some
// recent value of each counter, and nothing is ordered by them. Never used for correctness.
#pragma once

#include <atomic>
#include <cstdint>

namespace ublkd {

template <typename T>
class BasicCounter {
 public:
  void add(T n) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
  void set(T n) { value_.store(n, std::memory_order_relaxed); }
  [[nodiscard]] T get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<T> value_{0};
};

using Counter = BasicCounter<std::uint64_t>;
using Gauge = BasicCounter<std::uint32_t>;

struct OpCounters {
  Counter count;  // requests ended, failed ones too
  Counter bytes;  // of those that succeeded
  Counter errors;
};

}  // namespace ublkd
