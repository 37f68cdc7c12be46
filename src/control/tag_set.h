// TagSet: N hardware queues x depth D, private to a device or shared by name.
//
// Thread rule: the control thread.
// Invariants:
//   1. Built, and unbuilt, one hardware queue at a time; the control loop always runs between two. (blk-mq allocates
//      maps and requests in a loop that did not reschedule; linux-block: soft lockups with many deep queues.)
//   2. Its hardware queues outlive every device attached to them.
#pragma once

#include <memory>
#include <vector>

#include "config/config.h"
#include "control/asio.h"
#include "queue/hw_queue.h"

namespace ublkd {

class TagSet {
 public:
  struct BuildOptions {
    bool register_ublkc = false;
    MapMemory map_memory = Mapping::populated;
  };
  // When memory is short all is unbuilt and built again at half the depth (and slots_total_max), down to one tag: one
  // depth for all queues, config().depth; depth_asked() stays. As blk_mq_alloc_tag_set does.
  [[nodiscard]] static Task<Result<std::unique_ptr<TagSet>>> build(asio::io_context& io, TagSetConfig config,
                                                                   BuildOptions options);

  [[nodiscard]] const TagSetConfig& config() const { return config_; }
  [[nodiscard]] const std::vector<std::unique_ptr<HwQueue>>& hw_queues() const { return hw_queues_; }

  [[nodiscard]] std::uint32_t depth_asked() const { return depth_asked_; }

  // A device's place among the sharers: its number with scope set, else 0. Given back by leave, once detached.
  [[nodiscard]] std::uint32_t join(std::uint32_t weight) { return share_ == nullptr ? 0 : share_->add(weight); }
  void leave(std::uint32_t number) {
    if (share_ != nullptr) share_->remove(number);
  }
  void set_weight(std::uint32_t number, std::uint32_t weight) {
    if (share_ != nullptr) share_->set_weight(number, weight);
  }

  // How the devices share the tags, from now on.
  void configure(const ShareParams& share);

  // A private set takes the name that the kernel gave its device.
  void rename(std::string name) { config_.name = std::move(name); }

  // Devices attached now; refused beyond config().devices_max by the table.
  std::uint32_t devices = 0;

 private:
  explicit TagSet(TagSetConfig config) : config_(std::move(config)), depth_asked_(config_.depth) {}
  Task<Result<void>> build_queues(asio::io_context& io, const BuildOptions& options);
  Task<void> drop_queues(asio::io_context& io);

  TagSetConfig config_;
  std::uint32_t depth_asked_;
  std::unique_ptr<SetShare> share_;  // scope set; outlives the queues
  std::vector<std::unique_ptr<HwQueue>> hw_queues_;
};

}  // namespace ublkd
