#include "config/write.h"

#include <nlohmann/json.hpp>

namespace ublkd {

namespace {

struct ValueWriter {
  nlohmann::json operator()(const std::shared_ptr<const TargetSpec>& target) const {
    return target == nullptr ? nlohmann::json() : to_json(*target);
  }
  template <typename T>
  nlohmann::json operator()(const T& value) const {
    return value;
  }
};

}  // namespace

nlohmann::json to_json(const OptionValues& values) {
  nlohmann::json out = nlohmann::json::object();
  for (const auto& [name, value] : values.all()) out[name] = std::visit(ValueWriter{}, value);
  return out;
}

nlohmann::json to_json(const TargetSpec& spec) {
  nlohmann::json out = to_json(spec.options);
  out["type"] = spec.type;
  return out;
}

nlohmann::json to_json(const DeviceConfig& device) {
  nlohmann::json out = {
      {"target", to_json(device.target)}, {"weight", device.weight},
      {"read_only", device.read_only},    {"buffer_mode", buffer_mode_name(device.buffer_mode)},
      {"scheduler", device.scheduler},
  };
  if (!device.name.empty()) out["name"] = device.name;
  if (device.id) out["id"] = *device.id;
  if (!device.tag_set.empty()) out["tag_set"] = device.tag_set;
  if (device.timeout_ns != 0) out["timeout"] = device.timeout_ns;
  if (device.queues != 0) out["queues"] = device.queues;
  if (device.depth != 0) out["depth"] = device.depth;
  if (device.logical_block_bytes != 0) out["logical_block_size"] = device.logical_block_bytes;
  if (device.io_bytes_max != 0) out["max_io_size"] = device.io_bytes_max;
  return out;
}

}  // namespace ublkd
