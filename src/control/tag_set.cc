#include "control/tag_set.h"

#include "base/log.h"
#include "ublkd/queue_port.h"

namespace ublkd {

Task<Result<std::unique_ptr<TagSet>>> TagSet::build(asio::io_context& io, TagSetConfig config, bool register_ublkc) {
  std::unique_ptr<TagSet> set(new TagSet(std::move(config)));
  const TagSetConfig& c = set->config_;
  for (std::uint32_t i = 0; i < c.hw_queues; ++i) {
    HwQueueSpec spec{.set_name = c.name,
                     .index = i,
                     .depth = c.depth,
                     .slots_total_max = c.slots_total_max,
                     .files_max = c.devices_max * static_cast<std::uint32_t>(backing_files_max + 1),
                     .register_ublkc = register_ublkc,
                     .register_buffers = register_ublkc};
    if (!c.cpus.empty()) spec.cpus = {c.cpus[i % c.cpus.size()]};
    auto hw = HwQueue::start(spec);
    if (!hw) co_return Unexpected(hw.error());
    set->hw_queues_.push_back(std::move(*hw));
    co_await asio::post(io, asio::use_awaitable);
  }
  log_info("tag set {}: {} hardware queue(s) x {} tags, ring {}", c.name, c.hw_queues, c.depth,
           set->hw_queues_.front()->snapshot().ring_flags);
  if (!set->hw_queues_.front()->snapshot().io_flusher)
    log_warning("tag set {}: PR_SET_IO_FLUSHER refused: under memory pressure a queue thread may wait for its own "
                "device; give CAP_SYS_RESOURCE",
                c.name);
  co_return set;
}

}  // namespace ublkd
