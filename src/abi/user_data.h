// What our io_uring user_data words carry.
//
//   63    56 55    48 47          32 31                    0
//   [ kind ] [ step ] [ generation ] [ index in the table  ]
//
// A ublk command has kind and step 0, so that its upper half is the request's generation alone.
#pragma once

#include <cstdint>

namespace ublkd::user_data {

enum class Kind : std::uint8_t {
  ublk = 0,
  target = 1,
  inbox = 2,
  unwatched = 3,
  batch_prep = 4,  // batch commands: the index is that of their ublk queue's first slot
  batch_fetch = 5,
  batch_commit = 6,
};

constexpr std::uint64_t make(Kind kind, std::uint8_t step, std::uint16_t generation, std::uint32_t index) {
  return std::uint64_t{static_cast<std::uint8_t>(kind)} << 56 | std::uint64_t{step} << 48 |
         std::uint64_t{generation} << 32 | index;
}
constexpr Kind kind(std::uint64_t ud) { return static_cast<Kind>(ud >> 56); }
constexpr std::uint8_t step(std::uint64_t ud) { return static_cast<std::uint8_t>(ud >> 48); }
constexpr std::uint16_t generation(std::uint64_t ud) { return static_cast<std::uint16_t>(ud >> 32); }
constexpr std::uint32_t index(std::uint64_t ud) { return static_cast<std::uint32_t>(ud); }
constexpr std::uint32_t upper(std::uint64_t ud) { return static_cast<std::uint32_t>(ud >> 32); }

}  // namespace ublkd::user_data
