// Text of the daemon's answers: tables and details. A missing member is shown as "-", so that
// daemon and command line of different versions go together.
//
// Thread rule: pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace ublkd::cli {

// One line per device, with a head; empty without devices.
[[nodiscard]] std::string device_table(const nlohmann::json& list);

// Everything about the devices, tag sets and queues of a list.
[[nodiscard]] std::string list_details(const nlohmann::json& list);

// One device object of a list.
[[nodiscard]] std::string device_details(const nlohmann::json& device);

// Answer of the verb features.
[[nodiscard]] std::string features_text(const nlohmann::json& features);

}  // namespace ublkd::cli
