// BufferChoice: how the data of a device's requests moves, and what that takes of its hardware queues' rings.
//
// Thread rule: the control thread.
// Ownership: its ranges of the rings' buffer tables; given back with it, after the device has ended. The tag set
//   outlives it.
// Invariant: mode() is copy or zero_copy, never automatic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"
#include "control/tag_set.h"
#include "ublkd/geometry.h"

namespace ublkd {

class BufferChoice {
 public:
  // For a device with so many slots per queue. features: the driver's. Error unsupported, with the reason, when
  // zero_copy is asked for and cannot be.
  [[nodiscard]] static Result<BufferChoice> make(const DeviceConfig& config, const Geometry& geometry, TagSet& set,
                                                 std::uint64_t features);

  BufferChoice(BufferChoice&& other) noexcept = default;
  BufferChoice& operator=(BufferChoice&& other) noexcept;
  ~BufferChoice() { give_back(); }

  [[nodiscard]] BufferMode mode() const { return mode_; }
  [[nodiscard]] bool zero_copy() const { return mode_ == BufferMode::zero_copy; }
  // Copy mode: what rules zero copy out; empty when it was asked for.
  [[nodiscard]] const std::string& why() const { return why_; }
  // Zero copy: slot 0's place in the buffer table of hardware queue q.
  [[nodiscard]] std::uint32_t first_buffer(std::size_t q) const { return zero_copy() ? ranges_[q].first : 0; }

  // The geometry to advertise: limits of the memory's layout count only where the target sees that memory.
  [[nodiscard]] Geometry fit(Geometry geometry, std::uint64_t io_bytes_wanted) const;

 private:
  struct Range {
    HwQueue* hw;
    std::uint32_t first;
  };
  BufferChoice() = default;
  bool take_ranges(TagSet& set, std::uint32_t slots);
  void give_back();

  BufferMode mode_ = BufferMode::copy;
  std::string why_;
  std::vector<Range> ranges_;
};

}  // namespace ublkd
