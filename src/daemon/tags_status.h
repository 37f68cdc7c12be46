// What the verb `tags` answers. Control thread; reads counters of running queues without stopping them.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "daemon/fairness_watch.h"
#include "daemon/pool_counts.h"

namespace ublkd {

// One pool: its row and those of its devices.
[[nodiscard]] nlohmann::json pool_status(const PoolCounts& pool);

// {"at_ns": ..., "tag_sets": [...]}; only: name of the one set to show, empty: all. Error not_found names those there
// are.
[[nodiscard]] Result<nlohmann::json> tags_status(const DeviceTable& table, const FairnessWatch& fairness,
                                                 const std::string& only);

// {"tag_set", "scope", "policy", "grace_ns", "idle_after_ns"}
[[nodiscard]] nlohmann::json share_status(const TagSet& set);

// Share in force of each device by name, over its queues.
using Shares = std::map<std::string, double>;
[[nodiscard]] Shares shares_in_force(const DeviceTable& table);

// "there are a, b": for messages.
[[nodiscard]] std::string tag_sets_there(const DeviceTable& table);
[[nodiscard]] std::string devices_there(const DeviceTable& table);

}  // namespace ublkd
