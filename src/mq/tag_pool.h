// TagPool: the tags of one hardware queue, as a bitmap with one owner.
//
//   words_   [ 1101... ][ 0000... ][ 0111... ]     bit set: tag free
//   nonempty_   1          0          1            one bit per word with a free tag
//
// Thread rule: the hardware queue's thread; no atomics.
// Invariants:
//   1. A tag is free exactly when its bit is set; free() counts the set bits.
//   2. A pass returns at least one tag whenever one is free.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "ublkd/queue_port.h"
#include "ublkd/units.h"

namespace ublkd {

// Tags got in one pass: bit i of mask is tag base + i. A mask may have holes.
struct TagBatch {
  std::uint64_t mask = 0;
  std::uint32_t base = 0;

  [[nodiscard]] bool empty() const { return mask == 0; }
  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(std::popcount(mask)); }
  // Precondition: not empty.
  Tag pop() {
    const auto bit = static_cast<std::uint32_t>(std::countr_zero(mask));
    mask &= mask - 1;
    return Tag(static_cast<std::uint16_t>(base + bit));
  }
};

class TagPool {
 public:
  // depth: 1 .. depth_max.
  explicit TagPool(std::uint32_t depth) : depth_(depth), free_(depth) {
    UBLKD_CHECK(depth >= 1 && depth <= depth_max);
    for (std::uint32_t t = 0; t < depth; ++t) words_[t / 64] |= bit(t);
    for (std::uint32_t w = 0; w < words_max; ++w)
      if (words_[w] != 0) nonempty_ |= std::uint64_t{1} << w;
  }

  [[nodiscard]] std::uint32_t depth() const { return depth_; }
  [[nodiscard]] std::uint32_t free() const { return free_; }

  // One pass: up to wanted tags (>= 1) of one word. Empty only when no tag is free. A caller that
  // got a part asks again for the rest.
  TagBatch take(std::uint32_t wanted) {
    if (nonempty_ == 0) return {};
    const auto w = static_cast<std::uint32_t>(std::countr_zero(nonempty_));
    std::uint64_t& word = words_[w];
    std::uint64_t mask = word;
    if (static_cast<std::uint32_t>(std::popcount(mask)) > wanted) mask = lowest_bits(mask, wanted);
    word &= ~mask;
    if (word == 0) nonempty_ &= ~(std::uint64_t{1} << w);
    free_ -= static_cast<std::uint32_t>(std::popcount(mask));
    return {mask, w * 64};
  }

  void put(Tag tag) {
    const std::uint32_t t = raw(tag);
    std::uint64_t& word = words_[t / 64];
    UBLKD_CHECK(t < depth_ && (word & bit(t)) == 0);
    word |= bit(t);
    nonempty_ |= std::uint64_t{1} << (t / 64);
    ++free_;
  }

 private:
  static constexpr std::uint32_t words_max = depth_max / 64;
  static_assert(words_max <= 64, "one summary word");

  static std::uint64_t bit(std::uint32_t t) { return std::uint64_t{1} << (t % 64); }

  // The n lowest set bits of m, which has more than n.
  static std::uint64_t lowest_bits(std::uint64_t m, std::uint32_t n) {
    std::uint64_t rest = m;
    for (; n > 0; --n) rest &= rest - 1;
    return m & ~rest;
  }

  std::uint32_t depth_;
  std::uint32_t free_;
  std::uint64_t nonempty_ = 0;
  std::array<std::uint64_t, words_max> words_{};
};

}  // namespace ublkd
