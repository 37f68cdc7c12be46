// TimeoutWatch: looks for requests that take longer than their device's timeout, and has their targets end them.
//
// Thread rule: the control thread. Scans the inflight tables; what it finds is a message to the queue's thread.
// Ownership: the table outlives it.
#pragma once

#include <span>

#include "control/device_table.h"
#include "control/periodic.h"

namespace ublkd {

// How often to look, for the timeouts of the devices (0: none): a quarter of the smallest, from 10 ms to 1 s.
[[nodiscard]] std::optional<std::chrono::nanoseconds> scan_interval(std::span<const std::uint64_t> timeouts_ns);

class TimeoutWatch {
 public:
  TimeoutWatch(asio::io_context& io, const DeviceTable& table);

  // Devices have come or gone.
  void devices_changed() { periodic_.wake(); }

 private:
  void scan() const;

  const DeviceTable& table_;
  Periodic periodic_;
};

}  // namespace ublkd
