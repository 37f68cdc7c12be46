// Jain's index: how evenly the devices of a tag set were served, from 1/n (one had it all) to 1 (each the same).
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ublkd {

// (sum x)^2 / (n x sum x^2). Nothing below two values, and when all are 0.
[[nodiscard]] inline std::optional<double> jain_index(std::span<const double> values) {
  double sum = 0, squares = 0;
  for (const double x : values) {
    sum += x;
    squares += x * x;
  }
  if (values.size() < 2 || squares == 0) return std::nullopt;
  return sum * sum / (static_cast<double>(values.size()) * squares);
}

// Time counters of one device, over all its queues.
struct DeviceTimes {
  std::uint64_t tag_time_ns = 0;  // tag-nanoseconds held
  std::uint64_t waited_ns = 0;    // with requests that had no tag
  std::uint32_t weight = 1;
};
using TimesByDevice = std::map<std::string, DeviceTimes>;

// The index of tag-time / weight between two samples, over the devices that waited meanwhile: only of them can it be
// said that they got less than they asked. A device that is in one sample only, or began anew, is left out.
[[nodiscard]] inline std::optional<double> fairness_between(const TimesByDevice& before, const TimesByDevice& now) {
  std::vector<double> values;
  for (const auto& [name, times] : now) {
    const auto it = before.find(name);
    if (it == before.end()) continue;
    const DeviceTimes& old = it->second;
    if (times.waited_ns <= old.waited_ns || times.tag_time_ns < old.tag_time_ns) continue;
    values.push_back(static_cast<double>(times.tag_time_ns - old.tag_time_ns) / times.weight);
  }
  return jain_index(values);
}

}  // namespace ublkd
