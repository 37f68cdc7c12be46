// FairnessWatch: Jain's index of the last second, for each shared tag set of two devices or more.
//
// Thread rule: the control thread. Takes a sample of counters once a second, while there is such a set.
// Ownership: the table outlives it.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "control/device_table.h"
#include "control/periodic.h"
#include "stats/fairness.h"

namespace ublkd {

class FairnessWatch {
 public:
  FairnessWatch(asio::io_context& io, const DeviceTable& table);

  // Devices have come or gone.
  void devices_changed() { periodic_.wake(); }

  // Nothing: fewer than two devices waited in that second, or it is not over.
  [[nodiscard]] std::optional<double> last_second(const TagSet& set) const;

 private:
  struct Sample {
    TimesByDevice times;
    std::optional<double> jain;
  };

  void sample();

  const DeviceTable& table_;
  std::map<std::string, Sample> samples_;  // by tag set
  Periodic periodic_;
};

}  // namespace ublkd
