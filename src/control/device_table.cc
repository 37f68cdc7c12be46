#include "control/device_table.h"

#include <algorithm>

#include "base/log.h"
#include "control/set_fit.h"

namespace ublkd {

namespace {

bool named_after_number(const std::string& name) {
  return name.starts_with("ublkb") && name.size() > 5 &&
         name.find_first_not_of("0123456789", 5) == std::string::npos;
}

}  // namespace

Task<Result<void>> DeviceTable::add_tag_set(TagSetConfig config, std::vector<DeviceConfig> devices) {
  const std::string name = config.name;
  fit_to_devices(config, devices, env_.types);
  auto set = co_await TagSet::build(*env_.io, std::move(config), {.register_ublkc = register_ublkc_});
  if (!set) co_return Unexpected(set.error());
  sets_.insert_or_assign(name, std::move(*set));
  co_return Result<void>{};
}

Result<void> DeviceTable::check_new(const DeviceConfig& config) {
  const std::string label = config.name.empty() ? "new device" : config.name;
  if (closed_) return fail(ErrorKind::busy, "add device", label, "the daemon is stopping");
  if (config.name.empty()) return {};
  if (named_after_number(config.name) && (!config.id || config.name != "ublkb" + std::to_string(*config.id)))
    return fail(ErrorKind::invalid, "add device", label, "this name belongs to a device number; choose another");
  const Entry* other = find(config.name);
  if (other != nullptr && other->device != nullptr)
    return fail(ErrorKind::exists, "add device", label, "this daemon has a device of that name");
  return {};
}

Task<Result<TagSet*>> DeviceTable::set_for(Entry& entry, const DeviceConfig& config) {
  if (config.tag_set.empty()) {
    auto set = co_await TagSet::build(*env_.io, private_set_config(config, env_.types),
                                           {.register_ublkc = register_ublkc_});
    if (!set) co_return Unexpected(set.error());
    entry.private_set = std::move(*set);
    co_return entry.private_set.get();
  }
  const auto it = sets_.find(config.tag_set);
  if (it == sets_.end())
    co_return fail(ErrorKind::not_found, "add device", config.name,
                   "there is no tag set '" + config.tag_set + "'; the running config defines the tag sets");
  TagSet* set = it->second.get();
  if (set->devices >= set->config().devices_max)
    co_return fail(ErrorKind::limit, "add device", config.name,
                   "tag set '" + config.tag_set + "' has its devices_max of " +
                       std::to_string(set->config().devices_max) + " devices");
  if (auto fits = check_fit(set->config(), config, env_.types); !fits) co_return Unexpected(fits.error());
  co_return set;
}

Task<Result<void>> DeviceTable::start_entry(Entry& entry, DeviceConfig config) {
  auto set = co_await set_for(entry, config);
  if (!set) co_return Unexpected(set.error());
  if (closed_) co_return fail(ErrorKind::busy, "add device", entry.name, "the daemon is stopping");
  TagSet* tag_set = *set;
  ++tag_set->devices;
  entry.device = std::make_unique<Device>(env_, std::move(config), *tag_set);
  on_change_();
  auto started = co_await entry.device->start();
  if (!started && entry.device->state() == LifeState::gone && !entry.removing) {
    --tag_set->devices;
    entry.device.reset();
    entry.private_set.reset();
  }
  co_return started;
}

Task<Result<const Device*>> DeviceTable::add(DeviceConfig config, bool keep_failed) {
  if (auto ok = check_new(config); !ok) co_return Unexpected(ok.error());
  if (const Entry* failed = find(config.name); failed != nullptr && !config.name.empty()) erase(failed);
  if (config.depth == 0) config.depth = 128;
  entries_.push_back(std::make_unique<Entry>());
  Entry* entry = entries_.back().get();
  entry->name = config.name.empty() ? "new-" + std::to_string(++unnamed_) : config.name;
  ++adds_in_progress_;
  auto started = co_await start_entry(*entry, config);
  --adds_in_progress_;
  if (!started) {
    entry->error = started.error().text();
    if (!keep_failed && entry->device == nullptr) erase(entry);
    co_return Unexpected(started.error());
  }
  entry->name = entry->device->config().name;
  if (entry->private_set != nullptr) entry->private_set->rename(entry->name);
  const Device& d = *entry->device;
  log_info("device {}: {} live: {} target, {} bytes, {} queue(s) x {} slots, tag set {}, buffers {}{}", entry->name,
           d.path(), d.config().target.type, d.geometry().size_bytes, d.info().nr_hw_queues, d.info().queue_depth,
           d.tag_set().config().name, buffer_mode_name(d.buffers()->mode()),
           d.buffers()->why().empty() ? "" : " (" + d.buffers()->why() + ")");
  on_change_();
  co_return entry->device.get();
}

DeviceTable::Entry* DeviceTable::find_entry(const std::string& which) {
  for (const auto& e : entries_) {
    if (e->name == which) return e.get();
    if (e->device == nullptr || e->device->path().empty()) continue;
    const std::string path = e->device->path();
    if (path == which || path == "/dev/ublkb" + which || path == "/dev/" + which) return e.get();
  }
  return nullptr;
}

const DeviceTable::Entry* DeviceTable::find(const std::string& which) const {
  return const_cast<DeviceTable*>(this)->find_entry(which);
}

void DeviceTable::erase(const Entry* entry) {
  std::erase_if(entries_, [entry](const auto& e) { return e.get() == entry; });
}

Task<Result<void>> DeviceTable::remove(std::string which, StopMode mode) {
  Entry* entry = find_entry(which);
  if (entry == nullptr) co_return fail(ErrorKind::not_found, "delete device", which, "there is none");
  if (entry->device == nullptr) {
    const bool being_built = entry->error.empty();
    if (being_built) co_return fail(ErrorKind::busy, "delete device", which, "its tag set is being built");
    erase(entry);
    co_return Result<void>{};
  }
  if (entry->removing) co_return fail(ErrorKind::busy, "delete device", which, "it is being deleted already");
  entry->removing = true;  // keeps entry and device where they are
  ++removes_in_progress_;
  auto stopped = co_await entry->device->stop(mode);
  --removes_in_progress_;
  entry->removing = false;
  if (!stopped) co_return stopped;
  log_info("device {}: gone", entry->name);
  --set_of(*entry).devices;
  erase(entry);
  on_change_();
  co_return Result<void>{};
}

Task<Result<void>> DeviceTable::remove_all(StopMode mode) {
  auto result = co_await remove_present(mode);
  // What was still being added then has seen that we are closed, or ends now; so does what others remove.
  constexpr std::chrono::milliseconds poll{10};
  while (closed_ && (adds_in_progress_ > 0 || removes_in_progress_ > 0)) {
    asio::steady_timer timer(*env_.io, poll);
    co_await timer.async_wait(asio::use_awaitable);
    auto again = co_await remove_present(mode);
    if (result && !again) result = again;
  }
  co_return result;
}

Task<Result<void>> DeviceTable::remove_present(StopMode mode) {
  std::vector<std::string> names;
  for (const auto& e : entries_)
    if (!e->removing && (e->device != nullptr || !e->error.empty())) names.push_back(e->name);
  Event all_done(*env_.io);
  std::size_t left = names.size();
  Result<void> first;
  for (const std::string& name : names) {
    asio::co_spawn(*env_.io, remove(name, mode), [&](std::exception_ptr, Result<void> r) {
      if (!r && r.error().kind != ErrorKind::not_found) {
        log_error("{}", r.error().text());
        if (first) first = r;
      }
      if (--left == 0) all_done.notify();
    });
  }
  if (!names.empty()) co_await all_done.wait_until(Deadline::max());
  co_return first;
}

}  // namespace ublkd
