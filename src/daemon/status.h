// The daemon's state as JSON: what `list` and `features` answer. Control thread; reads counters of
// running queues without stopping them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "control/device_table.h"
#include "daemon/tags_status.h"

namespace ublkd {

[[nodiscard]] nlohmann::json device_status(const DeviceTable::Entry& entry, const Shares& shares);
[[nodiscard]] nlohmann::json tag_sets_status(const DeviceTable& table);
[[nodiscard]] nlohmann::json features_status(std::uint64_t kernel, std::uint64_t usable);

}  // namespace ublkd
