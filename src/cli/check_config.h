// What a valid config asks for, in numbers. Pure functions.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "config/config.h"

namespace ublkd::cli {

struct ConfigSummary {
  std::string origin;
  std::size_t devices = 0;
  std::size_t tag_sets_shared = 0;
  std::size_t queue_threads = 0;
  // Buffers of all slots, if every slot once carried the largest I/O. The kernel may limit the
  // queues of a device to its CPUs, and a target its largest I/O, so it is at most this.
  std::uint64_t buffer_bytes_max = 0;
};

[[nodiscard]] ConfigSummary summary_of(const Config& config);
[[nodiscard]] std::string summary_text(const ConfigSummary& summary);
[[nodiscard]] nlohmann::json summary_json(const ConfigSummary& summary);

}  // namespace ublkd::cli
