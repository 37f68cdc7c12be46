// What must hold between the parts of a config, beyond what each key allows by itself.
//
// Thread rule: pure functions, control thread.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "config/problems.h"

namespace ublkd {

// Where something stands, for messages.
struct TextPlace {
  TextPosition at;
  std::string path;
};

struct DevicePlaces {
  TextPlace name;
  TextPlace id;
  TextPlace tag_set;
};

// A config and where its parts stand; both lists go with the lists of the config.
struct CheckedConfig {
  Config config;
  std::vector<TextPlace> tag_set_places;
  std::vector<DevicePlaces> device_places;
};

// Names of devices and tag sets, by option_table.h.
void check_name(const std::string& name, const TextPlace& place, Problems& problems);

// Distinct names and ids; tag sets that exist; devices and slots of a set within its limits.
void check_config(const CheckedConfig& checked, Problems& problems);

}  // namespace ublkd
