// The end of a device: stop() and the clean-up of a start that failed.
#include <cerrno>
#include <utility>

#include "abi/features.h"
#include "base/log.h"
#include "control/device.h"
#include "control/device_lane.h"
#include "control/holders.h"

namespace ublkd {

namespace {

using namespace std::chrono_literals;

constexpr auto start_end_deadline = 150s;  // longer than any step of start()
constexpr auto stop_grace = 5s;            // for requests in flight, before they are aborted
constexpr auto close_grace = 2s;           // for those who have the stopped device open

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
  return all;
}

}  // namespace

Task<Result<void>> Device::stop(StopMode mode) {
  if (state_ < LifeState::live) {
    cancel_ = true;
    if (state_ == LifeState::configured) co_return Result<void>{};
    fail_lanes();
    const bool ended = co_await start_ended_->wait_until(after(start_end_deadline));
    if (!ended) co_return fail(ErrorKind::timeout, "stop device", config_.name, "its start does not end");
    if (state_ == LifeState::gone) co_return Result<void>{};
  }
  if (state_ == LifeState::gone) co_return Result<void>{};
  if (state_ == LifeState::stopping || state_ == LifeState::deleting)
    co_return fail(ErrorKind::busy, "delete device", config_.name, "it is being deleted already");
  if (resizing_) co_await resize_ended_->wait_until(after(control_deadline));
  become(LifeState::stopping);
  auto stopped = co_await stop_in_kernel(mode);
  if (!stopped) {
    become(stopped.error().kind == ErrorKind::busy ? LifeState::live : LifeState::stuck);
    co_return stopped;
  }
  co_return co_await clean_up();
}

// Everything after a failed start or a stop: from where the device is to gone.
Task<Result<void>> Device::clean_up() {
  if (state_ == LifeState::opening || state_ == LifeState::adding) {
    buffers_.reset();
    target_.reset();
    become(LifeState::gone);
    co_return Result<void>{};
  }
  if (state_ == LifeState::attaching || state_ == LifeState::starting) {
    become(LifeState::stopping);
    auto stopped = co_await stop_in_kernel(StopMode::force);
    if (!stopped) {
      become(LifeState::stuck);
      co_return stopped;
    }
  }
  auto ended = co_await await_lanes_ended();
  if (!ended) {
    become(LifeState::stuck);
    co_return ended;
  }
  become(LifeState::deleting);
  drop_lanes();
  auto deleted = co_await delete_in_kernel();
  if (!deleted) {
    become(LifeState::stuck);
    co_return deleted;
  }
  buffers_.reset();
  target_.reset();
  become(LifeState::gone);
  co_return Result<void>{};
}

// STOP_DEV waits for the requests in flight; what a target does not end by itself is aborted after
// a grace, so that the wait is bounded.
Task<Result<void>> Device::stop_in_kernel(StopMode mode) {
  const bool can_try = (env_.features & abi::feature_bit(abi::Feature::safe_stop_dev)) != 0;
  const bool try_only = mode == StopMode::if_idle && can_try;
  holders_ = mode == StopMode::if_idle ? block_device_holders(path(), disk_name())
                                       : kernel_holders(path(), disk_name());
  if (mode == StopMode::if_idle && !holders_.empty())
    co_return fail(ErrorKind::busy, "delete device", config_.name + " (" + path() + ")",
                   "in use: " + joined(holders_) + "; end that first, or use --force");
  const auto command = env_.ring->send({.name = try_only ? "TRY_STOP_DEV" : "STOP_DEV",
                                        .op = try_only ? abi::u_cmd_try_stop_dev : abi::u_cmd_stop_dev,
                                        .device_id = info_.dev_id});
  auto result = co_await command->wait(stop_grace);
  if (!result && result.error().kind == ErrorKind::timeout) {
    log_warning("device {}: requests in flight {} s after STOP_DEV; aborting them", config_.name, stop_grace.count());
    fail_lanes();
    result = co_await command->wait(control_deadline);
  }
  if (!result && result.error().kind == ErrorKind::busy)
    co_return fail(ErrorKind::busy, "delete device", config_.name + " (" + path() + ")",
                   "somebody has it open; end that first, or use --force");
  // ENODEV: it was stopped before.
  if (!result && result.error().errno_value != ENODEV) co_return Unexpected(result.error());
  co_return Result<void>{};
}

Task<Result<void>> Device::await_lanes_ended() {
  for (const auto& lane : lanes_) {
    if (!lane->attached) continue;
    const bool ended = co_await lane->ended.wait_until(after(control_deadline));
    if (!ended)
      co_return fail(ErrorKind::timeout, "stop device", config_.name,
                     std::to_string(lane->dq->slots_out()) + " commands of queue " +
                         std::to_string(lane->hw.spec().index) + " did not come back");
    lane->attached = false;
  }
  co_return Result<void>{};
}

void Device::drop_lanes() {
  for (const auto& lane : lanes_) lane->hw.release(*lane->dq);
  lanes_.clear();
  if (share_number_) set_.leave(*std::exchange(share_number_, std::nullopt));
  desc_maps_.clear();
  char_node_.reset();
}

// The kernel answers DEL_DEV when the last who has the stopped block device open closes it. That may
// be never, and nothing of the device is left but its number: it is not waited for. Some holders can
// be seen only before the stop (a device mapper table), some only now.
Task<Result<void>> Device::delete_in_kernel() {
  const auto command =
      env_.ring->send({.name = "DEL_DEV", .op = abi::u_cmd_del_dev, .device_id = info_.dev_id});
  auto result = co_await command->wait(close_grace);
  if (!result && result.error().kind == ErrorKind::timeout) {
    const auto now = block_device_holders(path(), disk_name());
    if (!now.empty()) holders_ = now;
    if (!holders_.empty()) {
      log_warning("device {}: deleted, but number {} stays taken until it is closed: {}", config_.name, info_.dev_id,
                  joined(holders_));
      co_return Result<void>{};
    }
    result = co_await command->wait(control_deadline);
  }
  if (!result && result.error().errno_value != ENODEV) co_return Unexpected(result.error());
  co_return Result<void>{};
}

void Device::fail_lanes() {
  for (const auto& lane : lanes_)
    if (lane->attached) lane->hw.fail_device(*lane->dq);
}

}  // namespace ublkd
