#include "cli/check_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/table.h"

namespace ublkd::cli {

namespace {

constexpr std::uint64_t io_bytes_default = 512 * 1024;
constexpr std::uint32_t depth_default = 128;

const TagSetConfig* shared_set(const Config& config, const std::string& name) {
  const auto it = std::find_if(config.tag_sets.begin(), config.tag_sets.end(),
                               [&](const TagSetConfig& s) { return s.name == name; });
  return it == config.tag_sets.end() ? nullptr : &*it;
}

std::uint32_t queues_of(const Config& config, const DeviceConfig& device) {
  const TagSetConfig* set = device.tag_set.empty() ? nullptr : shared_set(config, device.tag_set);
  return set != nullptr ? set->hw_queues : std::max(device.queues, 1U);
}

}  // namespace

ConfigSummary summary_of(const Config& config) {
  ConfigSummary s;
  s.origin = config.origin;
  s.devices = config.devices.size();
  s.tag_sets_shared = config.tag_sets.size();
  for (const TagSetConfig& set : config.tag_sets) s.queue_threads += set.hw_queues;
  for (const DeviceConfig& device : config.devices) {
    const std::uint64_t queues = queues_of(config, device);
    const std::uint64_t depth = device.depth != 0 ? device.depth : depth_default;
    const std::uint64_t io_bytes = device.io_bytes_max != 0 ? device.io_bytes_max : io_bytes_default;
    if (device.tag_set.empty()) s.queue_threads += queues;
    s.buffer_bytes_max += queues * depth * io_bytes;
  }
  return s;
}

std::string summary_text(const ConfigSummary& s) {
  return fmt::format(
      "OK {}: {} device(s), {} shared tag set(s), {} queue thread(s), at most {} of I/O buffers\n", s.origin,
      s.devices, s.tag_sets_shared, s.queue_threads, human_bytes(s.buffer_bytes_max));
}

nlohmann::json summary_json(const ConfigSummary& s) {
  return {{"origin", s.origin},
          {"devices", s.devices},
          {"tag_sets", s.tag_sets_shared},
          {"queue_threads", s.queue_threads},
          {"buffer_bytes_max", s.buffer_bytes_max}};
}

}  // namespace ublkd::cli
