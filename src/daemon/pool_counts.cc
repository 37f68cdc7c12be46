#include "daemon/pool_counts.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"

namespace ublkd {

namespace {

constexpr int tries_max = 8;  // of one reading; a queue that is faster than that is read as it comes

struct StateTimes {
  std::uint64_t touched_ns, tag_time_ns, waited_ns, starved_ns;
};

StateTimes read_times(const DeviceState& s) {
  StateTimes t{};
  for (int i = 0; i < tries_max; ++i) {
    t = {s.touched_ns.get(), s.tag_time_ns.get(), s.waited_ns.get(), s.starved_ns.get()};
    if (s.touched_ns.get() == t.touched_ns) break;
  }
  return t;
}

void add_histogram(MemberCounts::Histogram& sum, const BatchHistogram& h) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += h.counts[i].get();
}

// Adds one queue of the device.
void add_state(MemberCounts& m, const DeviceState& s, const TagsMoved& tags) {
  const std::uint64_t active = tags.taken - tags.put;
  const std::uint64_t waiting = s.waiting_now.get();
  m.taken += tags.taken;
  m.put += tags.put;
  m.active += active;
  m.waiting += waiting;
  m.peak += std::max(s.peak.get(), active);
  add_histogram(m.asked, s.batch_whole);
  add_histogram(m.asked, s.part_asked);
  add_histogram(m.got, s.batch_whole);
  add_histogram(m.got, s.part_got);
  const StateTimes t = read_times(s);
  const std::uint64_t now_ns = monotonic_ns();
  const std::uint64_t since_ns = now_ns > t.touched_ns ? now_ns - t.touched_ns : 0;
  m.tag_time_ns += t.tag_time_ns + active * since_ns;
  m.waited_ns += t.waited_ns + (waiting > 0 ? since_ns : 0);
  m.starved_ns += t.starved_ns + (waiting > 0 && active == 0 ? since_ns : 0);
  m.last_use_ns = std::max(m.last_use_ns, s.last_use_ns.get());
  m.idle_changes += s.idle_changes.get();
  m.leftovers += s.leftovers.get();
  m.timeouts += s.timeouts.get();
}

bool is_in_use(const MemberCounts& m, std::uint64_t now_ns, const ShareParams& params) {
  if (m.active > 0 || m.waiting > 0) return true;
  return m.last_use_ns != 0 && (now_ns < m.last_use_ns || now_ns - m.last_use_ns < params.active_for_ns());
}

// A device that is not in use is given the share it would have if it began now.
void set_shares(PoolCounts& pool, SharePolicy policy) {
  for (MemberCounts& m : pool.members) {
    const std::uint32_t users = pool.devices_in_use + (m.in_use ? 0 : 1);
    const std::uint64_t weight_sum = pool.weight_in_use + (m.in_use ? 0 : m.weight);
    m.share = share_in_force(policy, pool.depth, m.weight, users, weight_sum);
    m.borrowed = std::max(0.0, static_cast<double>(m.active) - m.share);
  }
}

}  // namespace

double share_in_force(SharePolicy policy, std::uint32_t depth, std::uint32_t weight, std::uint32_t users,
                      std::uint64_t weight_sum) {
  switch (policy) {
    case SharePolicy::none: return depth;
    case SharePolicy::equal: return equal_part(depth, users);
    case SharePolicy::adaptive: return static_cast<double>(depth) * weight / static_cast<double>(weight_sum);
  }
  return depth;
}

// With taken read before put, what a device seems to hold it held all the time in between: the sum over the devices
// is that of no moment, but never more than was held at once. When taken did not change meanwhile it is exact.
std::vector<TagsMoved> read_tags(std::span<const DeviceState* const> states) {
  std::vector<TagsMoved> out(states.size());
  for (int i = 0; i < tries_max; ++i) {
    for (std::size_t s = 0; s < states.size(); ++s) out[s].taken = states[s]->tags_taken.get();
    for (std::size_t s = 0; s < states.size(); ++s) out[s].put = std::min(states[s]->tags_put.get(), out[s].taken);
    bool still = true;
    for (std::size_t s = 0; s < states.size(); ++s) still = still && states[s]->tags_taken.get() == out[s].taken;
    if (still) break;
  }
  return out;
}

PoolCounts read_pool(const Pool& pool, const ShareParams& params) {
  std::vector<const DeviceState*> states;
  for (const PoolMember& m : pool.members) states.insert(states.end(), m.queues.begin(), m.queues.end());
  const std::vector<TagsMoved> tags = read_tags(states);
  PoolCounts out{.queue = pool.queue, .depth = pool.depth};
  std::size_t next = 0;
  for (const PoolMember& member : pool.members) {
    MemberCounts m{.device = member.device, .weight = member.weight};
    for (const DeviceState* s : member.queues) add_state(m, *s, tags[next++]);
    m.peak = std::min<std::uint64_t>(m.peak, pool.depth);
    m.in_use = is_in_use(m, monotonic_ns(), params);
    out.active += m.active;
    out.waiting += m.waiting;
    out.devices_in_use += m.in_use ? 1 : 0;
    out.weight_in_use += m.in_use ? m.weight : 0;
    out.members.push_back(std::move(m));
  }
  out.free = out.active < pool.depth ? pool.depth - out.active : 0;
  set_shares(out, params.policy);
  return out;
}

}  // namespace ublkd
