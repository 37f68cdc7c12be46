// The benchmarks of this program, by file. Each registers its own with Google Benchmark.
//
// Thread rule: main thread, before any benchmark runs.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "ublkd/units.h"

namespace ublkd::bench {

inline constexpr std::uint32_t seed = 20261;

void register_take_put();
void register_retry();

// Which tags of a pool are free that is `full` percent full: all, every other one, or scattered at random.
inline std::vector<Tag> free_tags(std::uint32_t depth, std::uint32_t full, std::mt19937& random) {
  std::vector<Tag> tags;
  for (std::uint32_t t = 0; t < depth; t += full == 50 ? 2 : 1) tags.push_back(Tag(static_cast<std::uint16_t>(t)));
  if (full == 0 || full == 50) return tags;
  for (std::size_t i = tags.size() - 1; i > 0; --i) std::swap(tags[i], tags[random() % (i + 1)]);
  tags.resize(depth * (100 - full) / 100);
  return tags;
}

}  // namespace ublkd::bench
