// BackingWatch: has the targets of live devices look at their backings once a second, and the devices follow them.
//
// Thread rule: the control thread.
// Ownership: the table outlives it.
#pragma once

#include "control/device_table.h"
#include "control/periodic.h"

namespace ublkd {

class BackingWatch {
 public:
  BackingWatch(asio::io_context& io, const DeviceTable& table);

  // Devices have come or gone.
  void devices_changed() { periodic_.wake(); }

 private:
  [[nodiscard]] bool any_live() const;
  void look() const;

  const DeviceTable& table_;
  Periodic periodic_;
};

}  // namespace ublkd
