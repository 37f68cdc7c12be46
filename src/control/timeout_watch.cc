#include "control/timeout_watch.h"

#include <algorithm>
#include <set>

#include "base/clock.h"
#include "base/log.h"

namespace ublkd {

namespace {

using std::chrono::nanoseconds;
using namespace std::chrono_literals;

constexpr nanoseconds interval_min = 10ms;
constexpr nanoseconds interval_max = 1s;
constexpr std::uint64_t looks_per_timeout = 4;

// One that is being started counts: the kernel reads its partition table meanwhile.
bool has_timeout(const DeviceTable::Entry& entry) {
  return entry.device != nullptr && entry.device->config().timeout_ns != 0;
}

}  // namespace

std::optional<nanoseconds> scan_interval(std::span<const std::uint64_t> timeouts_ns) {
  std::uint64_t smallest = 0;
  for (const std::uint64_t t : timeouts_ns)
    if (t != 0 && (smallest == 0 || t < smallest)) smallest = t;
  if (smallest == 0) return std::nullopt;
  return std::clamp(nanoseconds(smallest / looks_per_timeout), interval_min, interval_max);
}

TimeoutWatch::TimeoutWatch(asio::io_context& io, const DeviceTable& table)
    : table_(table),
      periodic_(
          io,
          [this] {
            std::vector<std::uint64_t> timeouts_ns;
            for (const auto& e : table_.entries())
              if (has_timeout(*e)) timeouts_ns.push_back(e->device->config().timeout_ns);
            return scan_interval(timeouts_ns);
          },
          [this] { scan(); }) {}

void TimeoutWatch::scan() const {
  std::set<const TagSet*> sets;
  for (const auto& e : table_.entries())
    if (has_timeout(*e)) sets.insert(&e->device->tag_set());
  const std::uint64_t now_ns = monotonic_ns();
  std::string found;
  for (const TagSet* set : sets)
    for (const auto& hw : set->hw_queues())
      if (const std::uint32_t n = hw->end_expired(now_ns); n > 0)
        found += fmt::format("{}{} of tag set {}, queue {}", found.empty() ? "" : ", ", n, set->config().name,
                             hw->spec().index);
  if (!found.empty())
    log_warning("requests longer in flight than their device's timeout: {}; their targets are asked to end them. Is "
                "the backend stuck, or the timeout too short?",
                found);
}

}  // namespace ublkd
