// What each tenant of a pool should hold: progressive filling, written without a look at fair_share.cc.
//
// All rise together, each at the speed of its weight, until its demand is met or the tags are gone.
#pragma once

#include <cstddef>
#include <vector>

namespace ublkd::sim {

struct Demand {
  double tags;
  double weight;
};

inline std::vector<double> fill(double tags, const std::vector<Demand>& demands) {
  std::vector<double> got(demands.size(), 0);
  std::vector<bool> full(demands.size(), false);
  while (tags > 1e-9) {
    double speed = 0;
    for (std::size_t i = 0; i < demands.size(); ++i)
      if (!full[i]) speed += demands[i].weight;
    if (speed == 0) break;
    double time = tags / speed;  // until the tags are gone, or the first is full
    for (std::size_t i = 0; i < demands.size(); ++i)
      if (!full[i] && (demands[i].tags - got[i]) / demands[i].weight < time)
        time = (demands[i].tags - got[i]) / demands[i].weight;
    for (std::size_t i = 0; i < demands.size(); ++i) {
      if (full[i]) continue;
      got[i] += time * demands[i].weight;
      tags -= time * demands[i].weight;
      full[i] = demands[i].tags - got[i] < 1e-9;
    }
  }
  return got;
}

}  // namespace ublkd::sim
