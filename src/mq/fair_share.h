// FairShare: which waiting devices may take the free tags of a pool, and how many each.
//
//   none      the oldest request first
//   equal     the oldest first, but no device beyond max(ceil(depth / active devices), 4): blk-mq's hctx_may_queue,
//             where a device stays active for idle_after_ns
//   adaptive  the smallest clock first, where a clock counts tag-time / weight: max-min
//
// adaptive, in full. A device is active while it holds, waits, or used a tag within grace; known when it has come back
// from idleness, and will again: both within known_for_ns.
//   clock    + tag-ns / weight as time passes; compared with what the tags it holds will still cost (mean hold time by
//            Little's law). A device that begins to wait is lifted to the smallest clock served, less what its share
//            is worth within grace: old idleness earns nothing, a moment's does.
//   share    progressive filling over the active: all rise by weight, each stops at its peak (the most it held and
//            asked within grace).
//   kept     tags up to its share that an active device does not ask at this moment: it stands in line for them with
//            its clock like one that waits, and what it is given stays free for it. At most half the depth.
//   spare    one tag (depth / 32; none below depth 8) stays free while a known device is not active.
//   promise  a device that was idle is passed by ceil(sum of weights / weight) tags at most until its first.
//
// All but the counting is for shortages. One begins when somebody must wait for a tag, and ends when for grace there
// were enough, also for what is kept. Before it nothing is kept and no clock counts: what was used then is nobody's
// debt.
//
// Thread rule: the hardware queue's thread.
// Ownership: refers to devices, which are added before their first request and removed after their last.
// Cost: while tags are plenty a few counters per (device, turn). In a shortage a grant is O(active devices of the pool)
//   per turn, with a heap for the tags; what concerns shares is done when the active ones change, and once per grace.
// Invariants (checked): a grant never exceeds the free tags or a device's waiting requests; the sum of held over all
//   devices is held().
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "mq/device_state.h"
#include "mq/share_params.h"
#include "ublkd/units.h"

namespace ublkd {

inline constexpr double hold_ns_min = 1000;  // so that a grant moves its clock even when tags are put at once
inline constexpr std::uint32_t hold_puts_min = 8;  // for one renewal of a mean hold time, beyond one put per tag held

class FairShare {
 public:
  explicit FairShare(std::uint32_t depth) : depth_(depth), spare_(depth < 8 ? 0 : std::max(1u, depth / 32)) {}

  void configure(const ShareParams& params);

  void add(DeviceState& device);
  void remove(DeviceState& device);
  void set_weight(DeviceState& device, std::uint32_t weight);

  // Its first request arrives, its last one got a tag or was taken away.
  void begin_waiting(DeviceState& device, std::uint64_t now_ns);
  void end_waiting(DeviceState& device) { device.share.waiting = false; }

  // n tags were taken by device's requests, or put.
  void took(DeviceState& device, std::uint32_t n, std::uint64_t now_ns);
  void gave(DeviceState& device, std::uint32_t n, std::uint64_t now_ns);

  // Instead of took and gave: what device holds now, and its tag-time and puts so far.
  struct Sum {
    std::uint32_t held = 0;
    std::uint64_t puts = 0;
    std::uint64_t tag_time_ns = 0;
  };
  void set_sum(DeviceState& device, const Sum& sum, std::uint64_t now_ns);

  // Sets asked of each device on the ready list, and granted to the same; returns the sum.
  std::uint32_t ask(DeviceState* ready, std::uint64_t now_ns);

  // Sets asked and granted of each device on the ready list; returns the sum granted, at most free.
  [[nodiscard]] std::uint32_t grant(DeviceState* ready, std::uint32_t free, std::uint64_t now_ns);

  // After a grant: when a tag that it withheld may be given without any other event; time_never_ns: none was.
  [[nodiscard]] std::uint64_t wake_ns() const { return withheld_ ? next_sweep_ns_ : time_never_ns; }

  [[nodiscard]] std::uint32_t held() const { return held_; }

 private:
  struct Candidate {
    double key;   // clock with expected costs
    double step;  // what one more tag adds
    DeviceState* device;
    std::uint32_t to_come;  // tags to keep for it beyond what it asks
    // The smaller key; at the same, who has waited longer; who does not wait, last.
    [[nodiscard]] bool before(const Candidate& o) const {
      if (key != o.key) [[likely]] return key < o.key;
      if (device->share.waiting != o.device->share.waiting) return device->share.waiting;
      return older(device->first_order(), o.device->first_order());
    }
  };
  struct Promised {
    std::uint64_t after = no_promise;  // grants
    const DeviceState* device = nullptr;
  };

  // Brings the device's times up to now; before held or waiting changes.
  void touch(DeviceState& device, std::uint64_t now_ns) {
    const std::uint64_t passed_ns = now_ns - device.touched_ns.get();
    if (passed_ns == 0) return;
    if (device.held != 0) device.tag_time_ns.add(device.held * passed_ns);
    if (device.share.waiting) {
      device.waited_ns.add(passed_ns);
      if (device.held == 0) device.starved_ns.add(passed_ns);
    }
    device.touched_ns.set(now_ns);  // last: a reader counts on from here
  }
  void activate(DeviceState& device, std::uint64_t now_ns);
  void begin_shortage();
  void lift(DeviceState& device);
  void sweep(std::uint64_t now_ns);
  // For its peak.
  void note_load(DeviceState& device, std::uint64_t now_ns) {
    ShareState& s = device.share;
    const std::uint32_t load = device.held + device.waits();
    if (now_ns - s.peak_since_ns >= params_.grace_ns) [[unlikely]] next_peak(s, load, now_ns);
    if (load > s.peak_now) s.peak_now = load;
  }
  void next_peak(ShareState& share, std::uint32_t load, std::uint64_t now_ns);
  void renew_hold(DeviceState& device);
  void fill_shares();
  [[nodiscard]] static std::uint32_t peak_of(const ShareState& s) { return std::max(s.peak_before, s.peak_now); }
  [[nodiscard]] bool still_active(const DeviceState& device, std::uint64_t now_ns) const {
    return device.held > 0 || device.share.waiting || now_ns - device.last_use_ns.get() < active_for_ns_;
  }
  [[nodiscard]] std::uint64_t promise_of(const DeviceState& device) const;
  [[nodiscard]] double step_of(const DeviceState& device) const {
    const double hold_ns = device.share.hold_ns != 0 ? device.share.hold_ns : hold_ns_;
    return std::max(hold_ns, hold_ns_min) * device.share.weight_inverse;
  }
  // The device's clock reads clock now.
  static void set_clock(DeviceState& device, double clock) {
    device.share.clock = clock;
    device.share.area_base = device.tag_time_ns.get();
  }
  [[nodiscard]] static double clock_of(const DeviceState& device) {
    const ShareState& s = device.share;
    // Signed: a sum may be a little behind what was counted on from the last one.
    const auto area = static_cast<std::int64_t>(device.tag_time_ns.get() - s.area_base);
    return s.clock + static_cast<double>(area) * s.weight_inverse;
  }
  [[nodiscard]] double key_of(const DeviceState& device) const {
    return clock_of(device) + device.held * step_of(device);
  }
  [[nodiscard]] static std::uint32_t to_come(const DeviceState& device);
  [[nodiscard]] std::uint32_t spare() const { return spared_ ? spare_ : 0; }
  std::uint32_t grant_short(DeviceState* ready, std::uint32_t wanted, std::uint32_t free, std::uint64_t now_ns);
  std::uint32_t grant_first_come(DeviceState* ready, std::uint32_t free, std::uint32_t held_max);
  std::uint32_t grant_equal(DeviceState* ready, std::uint32_t free, std::uint64_t now_ns);
  std::uint32_t grant_by_clock(DeviceState* ready, std::uint32_t free);
  void gather(DeviceState* ready);
  void stand_in_line(DeviceState& device, std::uint32_t kept) {
    heap_.push_back({key_of(device), step_of(device), &device, kept});
  }
  [[nodiscard]] Promised next_promised() const;
  [[nodiscard]] std::size_t place_of(const DeviceState& device) const;
  void sift_down(std::size_t at);
  void drop_first();

  const std::uint32_t depth_;
  const std::uint32_t spare_;
  ShareParams params_;
  std::uint64_t active_for_ns_ = params_.active_for_ns();
  std::vector<DeviceState*> devices_;
  std::vector<DeviceState*> active_;  // and those that were until the last sweep
  std::vector<Candidate> heap_;
  double clock_ = 0;               // smallest key served, the largest so far
  double hold_ns_ = 0;             // running mean over all devices
  double active_weight_ = 0;       // sum over active devices
  std::uint32_t held_ = 0;
  std::uint64_t grants_ = 0;       // tags granted so far, in a shortage
  std::uint64_t next_sweep_ns_ = 0;
  std::uint64_t short_until_ns_ = 0;  // a shortage ends when for grace all got what they asked
  bool active_changed_ = true;     // shares are to be renewed
  bool spared_ = false;            // a device is known and not active
  bool short_ = false;             // in a shortage: clocks count
  bool unserved_ = false;          // the last grant left some waiting
  bool withheld_ = false;
};

inline void FairShare::begin_waiting(DeviceState& device, std::uint64_t now_ns) {
  touch(device, now_ns);
  ShareState& s = device.share;
  const bool was_idle = !s.active || !still_active(device, now_ns);
  if (was_idle) [[unlikely]] activate(device, now_ns);
  s.waiting = true;
  s.promise = no_promise;
  if (!short_) return;
  lift(device);
  if (was_idle) s.promise = promise_of(device);
}

inline void FairShare::took(DeviceState& device, std::uint32_t n, std::uint64_t now_ns) {
  touch(device, now_ns);
  device.held += n;
  held_ += n;
  device.tags_taken.add(n);
  if (device.held > device.peak.get()) device.peak.set(device.held);
}

inline void FairShare::gave(DeviceState& device, std::uint32_t n, std::uint64_t now_ns) {
  touch(device, now_ns);
  UBLKD_CHECK(device.held >= n);
  device.held -= n;
  held_ -= n;
  device.tags_put.add(n);
  device.last_use_ns.set(now_ns);
  if (device.tags_put.get() - device.share.hold_puts_seen >= device.held + hold_puts_min) renew_hold(device);
}

}  // namespace ublkd
