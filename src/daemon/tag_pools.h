// The tag pools of a device table, as pool_counts.h reads them. Control thread.
#pragma once

#include <vector>

#include "control/device_table.h"
#include "daemon/pool_counts.h"

namespace ublkd {

// Sets in the order in which they are shown: shared ones by name, then private ones.
[[nodiscard]] std::vector<const TagSet*> tag_sets_of(const DeviceTable& table);

// Of the devices that the kernel has queues of; they come and go between two calls.
[[nodiscard]] std::vector<Pool> pools_of(const TagSet& set, const DeviceTable& table);

}  // namespace ublkd
