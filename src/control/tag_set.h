// TagSet: N hardware queues x depth D, private to a device or shared by name.
//
// Thread rule: the control thread.
// Invariants:
//   1. Built one hardware queue at a time; the control loop runs between two.
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
  [[nodiscard]] static Task<Result<std::unique_ptr<TagSet>>> build(asio::io_context& io, TagSetConfig config,
                                                                   bool register_ublkc);

  [[nodiscard]] const TagSetConfig& config() const { return config_; }
  [[nodiscard]] const std::vector<std::unique_ptr<HwQueue>>& hw_queues() const { return hw_queues_; }

  // A private set takes the name that the kernel gave its device.
  void rename(std::string name) { config_.name = std::move(name); }

  // Devices attached now; refused beyond config().devices_max by the table.
  std::uint32_t devices = 0;

 private:
  explicit TagSet(TagSetConfig config) : config_(std::move(config)) {}
  TagSetConfig config_;
  std::vector<std::unique_ptr<HwQueue>> hw_queues_;
};

}  // namespace ublkd
