// CLOCK_MONOTONIC in nanoseconds; any thread.
#pragma once

#include <ctime>

#include <cstdint>

namespace ublkd {

inline std::uint64_t monotonic_ns() {
  timespec ts;
  ::clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<std::uint64_t>(ts.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(ts.tv_nsec);
}

}  // namespace ublkd
