// The model: what a device must contain after any mix of requests, byte by byte.
#pragma once

#include <cstdint>
#include <string>

#include "tests/contract/rig.h"

namespace ublkd {

// What a target promises about content.
enum class Content : std::uint8_t {
  zeroes,            // null: writes are dropped, all reads give zeroes
  kept,              // writes are kept; a discarded range reads as zeroes
  kept_discard_any,  // writes are kept; a discarded range reads as anything until written
};

// Runs operations_count random requests, many at once and never two on one block, on a device that
// starts as zeroes, then reads it all. The requests and their order follow from seed alone, whatever
// order they complete in. Empty when every read was right; else what was wrong, where.
[[nodiscard]] std::string check_model(Rig& rig, Content content, std::uint64_t seed,
                                      std::uint32_t operations_count);

}  // namespace ublkd
