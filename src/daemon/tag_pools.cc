#include "daemon/tag_pools.h"

namespace ublkd {

std::vector<const TagSet*> tag_sets_of(const DeviceTable& table) {
  std::vector<const TagSet*> out;
  for (const auto& [name, set] : table.shared_sets()) out.push_back(set.get());
  for (const auto& e : table.entries())
    if (e->private_set != nullptr) out.push_back(e->private_set.get());
  return out;
}

std::vector<Pool> pools_of(const TagSet& set, const DeviceTable& table) {
  const TagSetConfig& c = set.config();
  std::vector<Pool> pools;
  if (c.scope == TagScope::set)
    pools.push_back({.depth = c.depth});
  else
    for (std::uint32_t q = 0; q < set.hw_queues().size(); ++q) pools.push_back({.queue = q, .depth = c.depth});
  for (const auto& e : table.entries()) {
    if (e->device == nullptr || &e->device->tag_set() != &set) continue;
    const Device& device = *e->device;
    const auto queues = device.queues();
    if (queues.empty()) continue;
    const PoolMember member{.device = e->name, .weight = device.config().weight};
    if (c.scope == TagScope::set) pools.front().members.push_back(member);
    for (std::size_t q = 0; q < queues.size(); ++q) {
      Pool& pool = c.scope == TagScope::set ? pools.front() : pools[q];
      if (c.scope == TagScope::queue) pool.members.push_back(member);
      pool.members.back().queues.push_back(queues[q]);
    }
  }
  return pools;
}

}  // namespace ublkd
