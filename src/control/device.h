// Device: one ublk device from its config to its end. Life cycle as coroutines on the control thread.
//
// Thread rule: the control thread. Counters of its queues may be read at any time.
// Ownership: owns the target, the device queues, /dev/ublkcN and the descriptor mappings; the tag
//   set outlives it.
// Invariants:
//   1. state() changes by the table of life_state.h only.
//   2. Stop order: STOP_DEV while the queues serve -> every command back on every queue -> unmap,
//      close -> DEL_DEV. A step before another's end hangs the kernel.
//   3. start() that fails leaves nothing: no node, no file it made, no slot.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "abi/ublk_cmd.h"
#include "base/fd.h"
#include "config/config.h"
#include "control/asio.h"
#include "control/buffer_choice.h"
#include "control/control_ring.h"
#include "control/life_state.h"
#include "control/tag_set.h"
#include "queue/device_queue.h"
#include "ublkd/target.h"

namespace ublkd {

// What all devices of a daemon share.
struct ControlEnvironment {
  asio::io_context* io = nullptr;
  ControlRing* ring = nullptr;
  std::span<const TargetType* const> types;
  BackingClaims* claims = nullptr;
  std::uint64_t features = 0;         // UBLK_F_* that may be used
  std::uint64_t features_kernel = 0;  // that the kernel has
};

enum class StopMode : std::uint8_t { if_idle, force };

class Device {
 public:
  Device(ControlEnvironment& env, DeviceConfig config, TagSet& set);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // From configured to live; the node is usable when this returns. On failure state() is gone (or
  // stuck when the kernel did not even answer the clean-up).
  Task<Result<void>> start();

  // To gone. if_idle: error busy, naming who, while somebody has the node open; the device stays
  // live. A start() in progress is given up first.
  Task<Result<void>> stop(StopMode mode);

  // Has the target look at its backing (Target::attend), and follows its size. While live, about once a second.
  void attend();

  // Its share of the tag set's tags, from now on. weight: 1 .. weight_max.
  void set_weight(std::uint32_t weight);

  [[nodiscard]] LifeState state() const { return state_; }
  [[nodiscard]] const DeviceConfig& config() const { return config_; }
  [[nodiscard]] const TagSet& tag_set() const { return set_; }
  [[nodiscard]] TagSet& tag_set() { return set_; }
  [[nodiscard]] const abi::DevInfo& info() const { return info_; }  // as the kernel gave it back
  [[nodiscard]] std::uint64_t flags_dropped() const { return flags_asked_ & ~info_.flags; }
  [[nodiscard]] const Geometry& geometry() const { return geometry_; }
  [[nodiscard]] const Target* target() const { return target_.get(); }
  [[nodiscard]] std::string path() const;  // /dev/ublkbN, empty before the kernel gave a number
  [[nodiscard]] std::string scheduler() const { return scheduler_; }
  [[nodiscard]] const BufferChoice* buffers() const { return buffers_ ? &*buffers_ : nullptr; }
  [[nodiscard]] std::vector<const DeviceQueue*> queues() const;

 private:
  struct Lane;

  [[nodiscard]] std::string disk_name() const { return "ublkb" + std::to_string(info_.dev_id); }
  void become(LifeState to);
  Task<Result<void>> start_steps();
  Task<Result<void>> open_backing();
  Task<Result<void>> add_to_kernel();
  Task<Result<void>> set_params();
  Task<Result<void>> open_char_node();
  Result<void> make_lanes();
  Task<Result<void>> attach_lanes();
  Task<Result<void>> start_in_kernel();
  Task<void> choose_scheduler();
  Task<Result<void>> clean_up();
  Task<Result<void>> stop_in_kernel(StopMode mode);
  Task<Result<void>> await_lanes_ended();
  Task<Result<void>> delete_in_kernel();
  Task<Error> explain_add_error(Error error);
  Result<void> cancelled() const;
  Task<void> follow_size(std::uint64_t size);
  void set_queue_sizes(std::uint64_t size);
  void fail_lanes();
  void drop_lanes();

  ControlEnvironment& env_;
  DeviceConfig config_;
  TagSet& set_;
  bool named_by_kernel_;
  LifeState state_ = LifeState::configured;
  bool cancel_ = false;  // start() should give up
  std::unique_ptr<Event> start_ended_;
  bool resizing_ = false;
  std::unique_ptr<Event> resize_ended_;  // of the last one; stop() may wait for it
  std::uint64_t size_refused_ = 0;
  Geometry geometry_;
  std::unique_ptr<Target> target_;
  std::optional<BufferChoice> buffers_;
  abi::DevInfo info_{};
  std::uint64_t flags_asked_ = 0;
  Fd char_node_;
  std::vector<Mapping> desc_maps_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::optional<std::uint32_t> share_number_;  // in the set's sharing, from make_lanes to drop_lanes
  std::string scheduler_;
  std::vector<std::string> holders_;  // who had the node open when it was stopped
};

}  // namespace ublkd
