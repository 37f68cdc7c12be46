#include "control/tag_set.h"

#include <algorithm>

#include "base/log.h"
#include "ublkd/queue_port.h"

namespace ublkd {

Task<Result<void>> TagSet::build_queues(asio::io_context& io, const BuildOptions& options) {
  const TagSetConfig& c = config_;
  if (c.scope == TagScope::set) {
    share_ = std::make_unique<SetShare>(c.depth, c.hw_queues, c.devices_max);
    share_->configure(c.share);
  }
  for (std::uint32_t i = 0; i < c.hw_queues; ++i) {
    HwQueueSpec spec{.set_name = c.name,
                     .index = i,
                     .depth = c.depth,
                     .slots_total_max = c.slots_total_max,
                     .files_max = c.devices_max * static_cast<std::uint32_t>(backing_files_max + 1),
                     .register_ublkc = options.register_ublkc,
                     .register_buffers = options.register_ublkc,
                     .entry_size = c.ring_entries == RingEntries::big ? EntrySize::big : EntrySize::small,
                     .share = c.share,
                     .set_share = share_.get(),
                     .map_memory = options.map_memory};
    if (!c.cpus.empty()) spec.cpus = {c.cpus[i % c.cpus.size()]};
    auto hw = HwQueue::start(spec);
    if (!hw) co_return Unexpected(hw.error());
    hw_queues_.push_back(std::move(*hw));
    co_await asio::post(io, asio::use_awaitable);
  }
  co_return Result<void>{};
}

Task<void> TagSet::drop_queues(asio::io_context& io) {
  while (!hw_queues_.empty()) {
    hw_queues_.pop_back();
    co_await asio::post(io, asio::use_awaitable);
  }
  share_.reset();
}

Task<Result<std::unique_ptr<TagSet>>> TagSet::build(asio::io_context& io, TagSetConfig config, BuildOptions options) {
  std::unique_ptr<TagSet> set(new TagSet(std::move(config)));
  TagSetConfig& c = set->config_;
  for (;;) {
    auto built = co_await set->build_queues(io, options);
    if (built) break;
    co_await set->drop_queues(io);
    if (built.error().kind != ErrorKind::no_memory || c.depth == 1) co_return Unexpected(built.error());
    c.depth /= 2;
    c.slots_total_max = std::max(c.slots_total_max / 2, 1u);
    log_warning("tag set {}: {}; building it with {} tags per queue and {} slots in all", c.name, built.error().text(),
                c.depth, c.slots_total_max);
  }
  log_info("tag set {}: {} hardware queue(s) x {} tags, ring {}", c.name, c.hw_queues, c.depth,
           set->hw_queues_.front()->snapshot().ring_flags);
  if (!set->hw_queues_.front()->snapshot().io_flusher)
    log_warning("tag set {}: PR_SET_IO_FLUSHER refused: under memory pressure a queue thread may wait for its own "
                "device; give CAP_SYS_RESOURCE",
                c.name);
  co_return set;
}

void TagSet::configure(const ShareParams& share) {
  config_.share = share;
  if (share_ != nullptr) share_->configure(share);
  for (const auto& hw : hw_queues_) hw->configure(share);
  log_info("tag set {}: policy {}, grace {} ns, idle_after {} ns", config_.name, share_policy_name(share.policy),
           share.grace_ns, share.idle_after_ns);
}

}  // namespace ublkd
