#include "daemon/fairness_watch.h"

#include "daemon/tag_pools.h"

namespace ublkd {

namespace {

using namespace std::chrono_literals;

bool is_watched(const TagSet& set) { return !set.config().is_private && set.devices >= 2; }

TimesByDevice times_of(const TagSet& set, const DeviceTable& table) {
  TimesByDevice out;
  for (const Pool& pool : pools_of(set, table))
    for (const MemberCounts& m : read_pool(pool, set.config().share).members) {
      DeviceTimes& times = out[m.device];
      times.tag_time_ns += m.tag_time_ns;
      times.waited_ns += m.waited_ns;
      times.weight = m.weight;
    }
  return out;
}

}  // namespace

FairnessWatch::FairnessWatch(asio::io_context& io, const DeviceTable& table)
    : table_(table),
      periodic_(
          io,
          [this]() -> std::optional<std::chrono::nanoseconds> {
            for (const auto& [name, set] : table_.shared_sets())
              if (is_watched(*set)) return 1s;
            samples_.clear();
            return std::nullopt;
          },
          [this] { sample(); }) {}

void FairnessWatch::sample() {
  std::map<std::string, Sample> now;
  for (const auto& [name, set] : table_.shared_sets()) {
    if (!is_watched(*set)) continue;
    Sample s{.times = times_of(*set, table_)};
    if (const auto before = samples_.find(name); before != samples_.end())
      s.jain = fairness_between(before->second.times, s.times);
    now.emplace(name, std::move(s));
  }
  samples_ = std::move(now);
}

std::optional<double> FairnessWatch::last_second(const TagSet& set) const {
  if (set.config().is_private) return std::nullopt;
  const auto it = samples_.find(set.config().name);
  return it == samples_.end() ? std::nullopt : it->second.jain;
}

}  // namespace ublkd
