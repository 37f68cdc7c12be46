// The kernel's ublk features without a daemon: one GET_FEATURES command on a ring of its own.
//
// Thread rule: one thread; blocks at most features_time_max.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "ublkd/result.h"

namespace ublkd::cli {

inline constexpr const char* control_node = "/dev/ublk-control";
inline constexpr std::chrono::milliseconds features_time_max{5'000};

// Errors: not_found (no node), permission, what ring set-up says, timeout (a kernel whose driver
// hangs), unsupported (a kernel before 6.5, which cannot be asked).
[[nodiscard]] Result<std::uint64_t> query_features(const std::string& node);

// The answer of the verb features made from a mask; nothing is "used" without a daemon.
[[nodiscard]] nlohmann::json features_json(const std::string& kernel_release, std::uint64_t mask);

// `uname -r`.
[[nodiscard]] std::string kernel_release();

}  // namespace ublkd::cli
