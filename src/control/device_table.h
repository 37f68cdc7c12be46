// DeviceTable: every tag set and device of this daemon, and the order in which they come and go.
//
// Thread rule: the control thread.
// Invariants:
//   1. Names are distinct; a device named ublkbN has number N.
//   2. A private tag set lives exactly as long as its device.
//   3. One add or remove works on a device at a time; others go on meanwhile.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "control/device.h"

namespace ublkd {

class DeviceTable {
 public:
  // register_ublkc: whether rings may hold /dev/ublkcN as a registered file (ring.h).
  DeviceTable(ControlEnvironment& env, bool register_ublkc) : env_(env), register_ublkc_(register_ublkc) {}

  struct Entry {
    std::string name;
    std::unique_ptr<TagSet> private_set;  // before device: outlives it
    std::unique_ptr<Device> device;
    std::string error;  // why it failed, when it is not there
    bool removing = false;  // remove() waits for its device, and is the one to destroy it
  };

  // devices: those of the config; the set is made to fit them.
  Task<Result<void>> add_tag_set(TagSetConfig config, std::vector<DeviceConfig> devices = {});

  // Adds and starts a device. A failed device of a config stays known by its error when keep_failed.
  Task<Result<const Device*>> add(DeviceConfig config, bool keep_failed = false);

  // By name, number, or node path ("/dev/ublkb0"); error not_found when there is none.
  Task<Result<void>> remove(std::string which, StopMode mode);

  // All at once; the first error, when one is stuck.
  Task<Result<void>> remove_all(StopMode mode);

  // Called when a device is about to start, has become live, or was removed.
  void on_change(std::function<void()> f) { on_change_ = std::move(f); }

  // True once close() was called: adds are refused.
  void close() { closed_ = true; }

  [[nodiscard]] const std::vector<std::unique_ptr<Entry>>& entries() const { return entries_; }
  [[nodiscard]] const std::map<std::string, std::unique_ptr<TagSet>>& shared_sets() const { return sets_; }
  [[nodiscard]] const Entry* find(const std::string& which) const;

 private:
  Entry* find_entry(const std::string& which);
  Result<void> check_new(const DeviceConfig& config);
  Task<Result<TagSet*>> set_for(Entry& entry, const DeviceConfig& config);
  Task<Result<void>> start_entry(Entry& entry, DeviceConfig config);
  Task<Result<void>> remove_present(StopMode mode);
  void erase(const Entry* entry);
  static TagSet& set_of(Entry& entry) { return entry.device->tag_set(); }

  ControlEnvironment& env_;
  bool register_ublkc_;
  std::function<void()> on_change_ = [] {};
  bool closed_ = false;
  std::uint32_t adds_in_progress_ = 0;
  std::uint32_t unnamed_ = 0;
  std::uint32_t removes_in_progress_ = 0;
  std::map<std::string, std::unique_ptr<TagSet>> sets_;
  std::vector<std::unique_ptr<Entry>> entries_;  // after sets_: devices go first
};

}  // namespace ublkd
