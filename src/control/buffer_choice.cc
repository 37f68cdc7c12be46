#include "control/buffer_choice.h"

#include <algorithm>
#include <utility>

#include "abi/features.h"

namespace ublkd {

namespace {

constexpr std::uint64_t io_bytes_default = 512 * 1024;

// Empty when zero copy can be.
std::string ruled_out_by(const Geometry& geometry, std::uint64_t features) {
  if (!geometry.zero_copy)
    return geometry.polled ? "polled completions: their ring has no table of the requests' buffers"
                           : "the target needs to see the data";
  if ((features & abi::feature_bit(abi::Feature::auto_buf_reg)) == 0)
    return "this kernel's ublk has no AUTO_BUF_REG (since Linux 6.16)";
  return {};
}

}  // namespace

Result<BufferChoice> BufferChoice::make(const DeviceConfig& config, const Geometry& geometry, TagSet& set,
                                        std::uint64_t features) {
  BufferChoice choice;
  if (config.buffer_mode == BufferMode::copy) return choice;
  choice.why_ = ruled_out_by(geometry, features);
  if (choice.why_.empty() && !choice.take_ranges(set, config.depth))
    choice.why_ = "the rings of tag set '" + set.config().name + "' have no room for " +
                  std::to_string(config.depth) + " more registered buffers (at most " +
                  std::to_string(ring_buffers_max) + ", and slots_total_max)";
  if (choice.why_.empty())
    choice.mode_ = BufferMode::zero_copy;
  else if (config.buffer_mode == BufferMode::zero_copy)
    return fail(ErrorKind::unsupported, "use buffer_mode zero_copy for", config.name,
                choice.why_ + "; use buffer_mode auto or copy");
  return choice;
}

bool BufferChoice::take_ranges(TagSet& set, std::uint32_t slots) {
  for (const auto& hw : set.hw_queues()) {
    const auto first = hw->take_buffers(slots);
    if (!first) {
      give_back();
      return false;
    }
    ranges_.push_back({hw.get(), *first});
  }
  return true;
}

void BufferChoice::give_back() {
  for (const Range& range : ranges_) range.hw->put_buffers(range.first);
  ranges_.clear();
}

BufferChoice& BufferChoice::operator=(BufferChoice&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  mode_ = other.mode_;
  why_ = std::move(other.why_);
  ranges_ = std::exchange(other.ranges_, {});
  return *this;
}

Geometry BufferChoice::fit(Geometry g, std::uint64_t io_bytes_wanted) const {
  // In copy mode each slot has memory of that size; else it costs nothing.
  if (io_bytes_wanted == 0) io_bytes_wanted = zero_copy() ? g.io_bytes_max : io_bytes_default;
  g.io_bytes_max = static_cast<std::uint32_t>(std::min<std::uint64_t>(io_bytes_wanted, g.io_bytes_max));
  if (zero_copy()) return g;
  g.virt_boundary_mask = g.segment_boundary_mask = 0;
  g.segments_max = g.segment_bytes_max = 0;
  return g;
}

}  // namespace ublkd
