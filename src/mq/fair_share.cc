#include "mq/fair_share.h"

#include <algorithm>
#include <cmath>

namespace ublkd {

namespace {

constexpr double hold_memory = 0.75;  // of what a mean was made of, at a renewal
constexpr double clock_max = 1e15;    // beyond, a double loses nanoseconds

}  // namespace

// --- devices come and go ------------------------------------------------------------------------

void FairShare::configure(const ShareParams& params) {
  params_ = params;
  active_for_ns_ = params.active_for_ns();
  active_changed_ = true;
}

void FairShare::add(DeviceState& device) {
  UBLKD_CHECK(device.held == 0 && device.waits() == 0);
  const std::uint32_t weight = device.share.weight;
  device.share = {};
  set_clock(device, 0);
  device.share.hold_area_seen = device.tag_time_ns.get();
  device.share.hold_puts_seen = device.tags_put.get();
  devices_.push_back(&device);
  heap_.reserve(devices_.size());
  active_.reserve(devices_.size());
  set_weight(device, weight);
}

void FairShare::remove(DeviceState& device) {
  UBLKD_CHECK(device.held == 0 && device.waits() == 0);
  if (device.share.active) active_weight_ -= device.share.weight;
  device.share.active = false;
  std::erase(devices_, &device);
  std::erase(active_, &device);
  active_changed_ = true;
}

void FairShare::set_weight(DeviceState& device, std::uint32_t weight) {
  UBLKD_CHECK(weight >= 1 && weight <= weight_max);
  ShareState& s = device.share;
  set_clock(device, clock_of(device));  // at the old weight until here
  if (s.active) active_weight_ += static_cast<double>(weight) - s.weight;
  s.weight = weight;
  s.weight_inverse = 1.0 / weight;
  active_changed_ = true;
}

void FairShare::activate(DeviceState& device, std::uint64_t now_ns) {
  device.idle_changes.add(1);
  const std::uint64_t used_ns = device.last_use_ns.get();
  if (used_ns != 0 && now_ns - used_ns < known_for_ns) device.share.returned_ns = now_ns;
  set_clock(device, clock_);
  if (device.share.active) return;  // it was idle, and no sweep came meanwhile
  device.share.active = true;
  active_.push_back(&device);
  active_weight_ += device.share.weight;
  active_changed_ = true;
}

// --- clocks ---------------------------------------------------------------------------------------

void FairShare::lift(DeviceState& device) {
  const double credit = depth_ * static_cast<double>(params_.grace_ns) / active_weight_;
  const double behind = clock_ - credit - key_of(device);
  if (behind > 0) device.share.clock += behind;
}

void FairShare::begin_shortage() {
  short_ = true;
  clock_ = 0;
  for (DeviceState* d : active_) set_clock(*d, 0);
}

std::uint64_t FairShare::promise_of(const DeviceState& device) const {
  return grants_ + static_cast<std::uint64_t>(std::ceil(active_weight_ * device.share.weight_inverse));
}

// Little's law: tag-time by puts is the mean hold time, over times in which every tag was put about once.
void FairShare::renew_hold(DeviceState& device) {
  ShareState& s = device.share;
  const std::uint64_t area = device.tag_time_ns.get(), puts = device.tags_put.get();
  s.hold_area_sum = s.hold_area_sum * hold_memory + static_cast<double>(area - s.hold_area_seen);
  s.hold_puts_sum = s.hold_puts_sum * hold_memory + static_cast<double>(puts - s.hold_puts_seen);
  s.hold_area_seen = area;
  s.hold_puts_seen = puts;
  s.hold_ns = s.hold_area_sum / s.hold_puts_sum;
  hold_ns_ += (s.hold_ns - hold_ns_) * (1 - hold_memory);
}

void FairShare::set_sum(DeviceState& device, const Sum& sum, std::uint64_t now_ns) {
  touch(device, now_ns);
  device.tag_time_ns.set(sum.tag_time_ns);
  const bool used = sum.held > 0 || sum.held != device.held || sum.puts != device.tags_put.get();
  if (used && !device.share.active) {
    const std::uint64_t returned_ns = device.share.returned_ns;
    activate(device, now_ns);  // it was busy while nobody had to ask: not back from idleness
    device.share.returned_ns = returned_ns;
  }
  if (used) device.last_use_ns.set(now_ns);
  device.tags_put.set(sum.puts);
  held_ += sum.held - device.held;
  device.held = sum.held;
  if (device.tags_put.get() - device.share.hold_puts_seen >= device.held + hold_puts_min) renew_hold(device);
}

// --- activity and shares --------------------------------------------------------------------------

void FairShare::next_peak(ShareState& share, std::uint32_t load, std::uint64_t now_ns) {
  share.peak_before = now_ns - share.peak_since_ns < 2 * params_.grace_ns ? share.peak_now : load;
  share.peak_now = load;
  share.peak_since_ns = now_ns;
}

void FairShare::sweep(std::uint64_t now_ns) {
  if (!active_changed_ && now_ns < next_sweep_ns_) return;
  active_changed_ = false;
  next_sweep_ns_ = now_ns + std::min(params_.grace_ns, active_for_ns_);
  active_weight_ = 0;
  spared_ = false;
  active_.clear();
  for (DeviceState* d : devices_) {
    ShareState& s = d->share;
    s.active = s.active && still_active(*d, now_ns);
    spared_ = spared_ || (!s.active && s.returned_ns != 0 && now_ns - s.returned_ns < known_for_ns);
    s.floor = s.kept = 0;
    if (!s.active) continue;
    note_load(*d, now_ns);
    active_.push_back(d);
    active_weight_ += s.weight;
  }
  fill_shares();
  if (clock_ > clock_max) begin_shortage();
}

// Progressive filling: all shares rise at the speed of their weights; a device that did not use more within grace stops
// at its peak, and leaves the rest to the others.
void FairShare::fill_shares() {
  double tags = depth_ - spare();
  double weights = active_weight_;
  heap_.clear();
  for (DeviceState* d : active_) heap_.push_back({peak_of(d->share) * d->share.weight_inverse, 0, d, 0});
  std::sort(heap_.begin(), heap_.end(), [](const Candidate& a, const Candidate& b) { return a.key < b.key; });
  for (const Candidate& c : heap_) {
    ShareState& s = c.device->share;
    const double share = std::min<double>(peak_of(s), tags * s.weight / weights);
    s.floor = static_cast<std::uint32_t>(share + 1e-6);
    s.kept = static_cast<std::uint32_t>(std::ceil(share - 1e-6));
    tags -= share;
    weights -= s.weight;
  }
}

}  // namespace ublkd
