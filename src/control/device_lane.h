// Device::Lane: one queue of a device and the hardware queue that serves it. Control thread.
#pragma once

#include "control/device.h"

namespace ublkd {

struct Device::Lane {
  Lane(HwQueue& h, std::unique_ptr<DeviceQueue> q, asio::io_context& io)
      : hw(h), dq(std::move(q)), attach_done(io), ended(io) {}
  HwQueue& hw;
  std::unique_ptr<DeviceQueue> dq;
  Event attach_done;
  Result<void> attach_result;
  Event ended;
  std::int32_t end_error = 0;
  bool attached = false;
};

}  // namespace ublkd
