#include "config/config_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "config/option_table.h"
#include "config/parse.h"
#include "config/text.h"

namespace ublkd {

namespace {

struct SetUse {
  std::uint64_t devices = 0;
  std::uint64_t slots = 0;
};

// Adds a problem when value was seen before, else remembers where.
template <typename T>
void check_distinct(std::map<T, TextPosition>& seen, const T& value, const TextPlace& place,
                    Problems& problems) {
  const auto [first, inserted] = seen.try_emplace(value, place.at);
  if (!inserted)
    problems.add(place.at, place.path,
                 fmt::format("expected a value of its own, found the one of line {} again; change one",
                             first->second.line));
}

void check_distinct_devices(const CheckedConfig& checked, Problems& problems) {
  std::map<std::string, TextPosition> names;
  std::map<std::uint32_t, TextPosition> ids;
  for (std::size_t i = 0; i < checked.config.devices.size(); ++i) {
    const DeviceConfig& device = checked.config.devices[i];
    if (!device.name.empty()) check_distinct(names, device.name, checked.device_places[i].name, problems);
    if (device.id) check_distinct(ids, *device.id, checked.device_places[i].id, problems);
  }
}

std::vector<std::string_view> set_names(const Config& config) {
  std::vector<std::string_view> names;
  for (const TagSetConfig& set : config.tag_sets) names.push_back(set.name);
  return names;
}

// Each device's set by name; a private set has its device's name, which no shared one may have.
void check_set_of(const DeviceConfig& device, const DevicePlaces& places,
                  const std::vector<std::string_view>& names, Problems& problems) {
  const bool is_private = device.tag_set.empty();
  const std::string& wanted = is_private ? device.name : device.tag_set;
  const bool exists = std::ranges::find(names, wanted) != names.end();
  if (is_private && exists)
    problems.add(
        places.name.at, places.name.path,
        fmt::format("expected a name that no tag set has, since the device gets a tag set of its own "
                    "by that name, found {}; rename one, or set tag_set",
                    in_quotes(wanted)));
  if (is_private || exists) return;
  problems.add(places.tag_set.at, places.tag_set.path,
               fmt::format("expected the name of a tag set, found {}; {}", in_quotes(wanted),
                           names.empty() ? "add it to tag_sets" : "there are " + joined(names)));
}

void check_set_limits(const TagSetConfig& set, const SetUse& use, const TextPlace& place,
                      Problems& problems) {
  if (use.devices > set.devices_max)
    problems.add(
        place.at, place.path,
        fmt::format("expected at most devices_max = {} devices on the set, found {}; raise devices_max",
                    set.devices_max, use.devices));
  if (use.slots > set.slots_total_max)
    problems.add(
        place.at, place.path,
        fmt::format("expected at most slots_total_max = {} slots per hardware queue, found {} over {} "
                    "devices; raise slots_total_max or lower the depth of the devices",
                    set.slots_total_max, use.slots, use.devices));
}

}  // namespace

void check_name(const std::string& name, const TextPlace& place, Problems& problems) {
  if (is_valid_name(name)) return;
  problems.add(
      place.at, place.path,
      fmt::format("expected a name of 1 to {} letters, digits, '.', '_' or '-' that begins with a letter "
                  "or digit and is neither a number nor ublkb with a number, found {}",
                  name_bytes_max, in_quotes(name)));
}

void check_config(const CheckedConfig& checked, Problems& problems) {
  check_distinct_devices(checked, problems);
  const Config& config = checked.config;
  const auto names = set_names(config);
  std::map<std::string_view, SetUse> uses;
  for (std::size_t i = 0; i < config.devices.size(); ++i) {
    const DeviceConfig& device = config.devices[i];
    check_set_of(device, checked.device_places[i], names, problems);
    SetUse& use = uses[device.tag_set];
    ++use.devices;
    use.slots += device.depth == 0 ? slots_default : device.depth;
  }
  for (std::size_t i = 0; i < config.tag_sets.size(); ++i)
    check_set_limits(config.tag_sets[i], uses[config.tag_sets[i].name], checked.tag_set_places[i], problems);
}

}  // namespace ublkd
