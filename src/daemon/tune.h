// The verb `tune`: changes of running tag sets and devices.
//
// Thread rule: the control thread; the queues follow between two turns.
// A change that is refused changes nothing.
#pragma once

#include <nlohmann/json.hpp>

#include "control/device_table.h"

namespace ublkd {

// args: {"tag_set": NAME, "change": {"policy", "grace", "idle_after"}} or {"device": NAME, NUMBER or PATH, "change":
// {"weight"}}, values as in the config. Returns what is in force then.
[[nodiscard]] Result<nlohmann::json> tune(DeviceTable& table, const nlohmann::json& args);

}  // namespace ublkd
