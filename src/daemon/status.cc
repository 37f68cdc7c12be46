#include "daemon/status.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "abi/features.h"
#include "config/write.h"
#include "daemon/tag_pools.h"

namespace ublkd {

using nlohmann::json;

namespace {

// Asked at ADD_DEV, or commands we use where the kernel has them.
constexpr std::uint64_t features_used =
    abi::feature_bit(abi::Feature::cmd_ioctl_encode) | abi::feature_bit(abi::Feature::safe_stop_dev) |
    abi::feature_bit(abi::Feature::auto_buf_reg) | abi::feature_bit(abi::Feature::batch_io) |
    abi::feature_bit(abi::Feature::update_size);

constexpr std::array ops{Op::read, Op::write, Op::flush, Op::discard, Op::write_zeroes};

struct Totals {
  std::uint64_t active = 0, waiting = 0, peak = 0, taken = 0, put = 0, leftovers = 0, memory_bytes = 0;
};

Totals totals_of(const Device& device) {
  Totals t;
  for (const DeviceQueue* q : device.queues()) {
    const TagsMoved tags = read_tags(std::array<const DeviceState*, 1>{q}).front();
    t.put += tags.put;
    t.taken += tags.taken;
    t.waiting += q->waiting_now.get();
    t.peak += q->peak.get();
    t.leftovers += q->leftovers.get();
    t.memory_bytes += q->memory_bytes();
  }
  t.active = t.taken - t.put;
  return t;
}

json ops_of(const Device& device) {
  json out = json::object();
  for (const Op op : ops) {
    std::uint64_t count = 0, bytes = 0, errors = 0;
    for (const DeviceQueue* q : device.queues()) {
      count += q->ops(op).count.get();
      bytes += q->ops(op).bytes.get();
      errors += q->ops(op).errors.get();
    }
    out[op_name(op)] = {{"count", count}, {"bytes", bytes}, {"errors", errors}};
  }
  return out;
}

json queue_status(const HwQueue& hw) {
  const HwQueue::Snapshot s = hw.snapshot();
  return {{"queue", hw.spec().index}, {"tid", s.thread_id},   {"cpus", hw.spec().cpus},
          {"ring", s.ring_flags},     {"active", s.depth - s.free}, {"free", s.free},
          {"waiting", s.waiting},     {"turns", s.turns},     {"cq_overflows", s.cq_overflows},
          {"devices", s.devices},     {"io_flusher", s.io_flusher}};
}

}  // namespace

json device_status(const DeviceTable::Entry& entry, const Shares& shares) {
  if (entry.device == nullptr)
    return {{"name", entry.name}, {"state", entry.error.empty() ? "building" : "failed"}, {"error", entry.error}};
  const Device& d = *entry.device;
  const Totals t = totals_of(d);
  json facts = json::object();
  if (d.target() != nullptr)
    for (const auto& [key, value] : d.target()->facts()) facts[key] = value;
  json options = to_json(d.config().target);
  options.erase("type");
  const auto share = shares.find(entry.name);
  return {{"id", d.info().dev_id},
          {"name", d.config().name},
          {"path", d.path()},
          {"state", life_state_name(d.state())},
          {"error", entry.error},
          {"target", d.config().target.type},
          {"target_options", options},
          {"tag_set", d.tag_set().config().name},
          {"tag_set_private", d.tag_set().config().is_private},
          {"queues", d.info().nr_hw_queues},
          {"queues_asked", d.tag_set().hw_queues().size()},
          {"depth", d.info().queue_depth},
          {"size_bytes", d.geometry().size_bytes},
          {"logical_block_bytes", d.geometry().logical_block_bytes},
          {"physical_block_bytes", d.geometry().physical_block_bytes},
          {"io_bytes_max", d.geometry().io_bytes_max},
          {"read_only", d.geometry().read_only},
          {"buffer_mode", d.buffers() == nullptr ? json() : json(buffer_mode_name(d.buffers()->mode()))},
          {"buffer_mode_why", d.buffers() == nullptr ? "" : d.buffers()->why()},
          {"flags", abi::feature_names(d.info().flags)},
          {"flags_dropped", abi::feature_names(d.flags_dropped())},
          {"weight", d.config().weight},
          {"timeout_ns", d.config().timeout_ns},
          {"scheduler", d.scheduler()},
          {"daemon_pid", ::getpid()},
          {"active", t.active},
          {"waiting", t.waiting},
          {"share", share == shares.end() ? json() : json(share->second)},
          {"peak", t.peak},
          {"tags_taken", t.taken},
          {"tags_put", t.put},
          {"leftovers", t.leftovers},
          {"memory_bytes", t.memory_bytes},
          {"facts", facts},
          {"ops", ops_of(d)}};
}

json tag_sets_status(const DeviceTable& table) {
  json out = json::array();
  const auto add = [&](const TagSet& set) {
    json devices = json::array(), queues = json::array();
    for (const auto& e : table.entries())
      if (e->device != nullptr && &std::as_const(*e->device).tag_set() == &set) devices.push_back(e->name);
    std::uint64_t free = 0;
    for (const auto& hw : set.hw_queues()) {
      queues.push_back(queue_status(*hw));
      free += hw->snapshot().free;
    }
    const std::uint64_t tags = std::uint64_t{set.config().depth} * set.hw_queues().size();
    out.push_back({{"name", set.config().name},
                   {"private", set.config().is_private},
                   {"hw_queues", set.hw_queues().size()},
                   {"depth", set.config().depth},
                   {"scope", tag_scope_name(set.config().scope)},
                   {"policy", share_policy_name(set.config().share.policy)},
                   {"devices", devices},
                   {"active", tags - free},
                   {"free", free},
                   {"queues", queues}});
  };
  for (const TagSet* set : tag_sets_of(table)) add(*set);
  return out;
}

json features_status(std::uint64_t kernel, std::uint64_t usable) {
  utsname uts{};
  ::uname(&uts);
  json list = json::array();
  for (const abi::FeatureInfo& f : abi::feature_table()) {
    const std::uint64_t bit = abi::feature_bit(f.feature);
    list.push_back({{"name", f.name},
                    {"bit", static_cast<unsigned>(f.feature)},
                    {"since", f.since},
                    {"meaning", f.meaning},
                    {"kernel", (kernel & bit) != 0},
                    {"used", (features_used & bit & usable) != 0}});
  }
  return {{"kernel", uts.release}, {"mask", fmt::format("{:#x}", kernel)}, {"features", list}};
}

}  // namespace ublkd
