// TagPool: the tags of one hardware queue: a bitmap with one owner, behind a short list of the tags put last.
//
//   put(tag) -> recent_ [ 17 3 90 ] -> take_all()            last in, first out
//                     |  full, or a mask is asked for
//                     v
//   words_        [ 1101... ][ 0000... ][ 0111... ]          bit set: at rest
//   nonempty_        1          0          1                 one bit per word with a tag at rest
//   hint_                                  ^                 the word that is being used up
//
// Of a pool that is nearly full the few free bits lie scattered, one or two in a word, and finding them would cost more
// than all else. So a tag that is put stays on the list for the next request, with its tables still in cache, and most
// never go back to the bitmap. Passes over the bitmap stay in one word until it is used up and then go on to the next.
//
// Thread rule: the hardware queue's thread; no atomics.
// Invariants:
//   1. A tag is held (held_), recent or at rest: exactly one. free() counts the last two.
//   2. A pass returns at least one tag whenever one is free.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include "mq/tag_batch.h"
#include "ublkd/queue_port.h"
#include "ublkd/units.h"

namespace ublkd {

class TagPool {
 public:
  // depth: 1 .. depth_max.
  explicit TagPool(std::uint32_t depth) : depth_(depth), at_rest_(depth) {
    UBLKD_CHECK(depth >= 1 && depth <= depth_max);
    for (std::uint32_t t = 0; t < depth; ++t) rest(t);
  }

  [[nodiscard]] std::uint32_t depth() const { return depth_; }
  [[nodiscard]] std::uint32_t free() const { return at_rest_ + recent_count_; }

  // One pass: up to wanted tags (>= 1) of one word. Empty only when no tag is free. A caller that
  // got a part asks again for the rest.
  TagBatch take(std::uint32_t wanted) {
    settle(recent_count_);
    if (nonempty_ == 0) return {};
    const std::uint32_t w = (hint_ + lowest_bit(std::rotr(nonempty_, static_cast<int>(hint_)))) % 64;
    const std::uint64_t mask = lowest_bits(words_[w], wanted);
    words_[w] ^= mask;
    for (std::uint64_t m = mask; m != 0; m &= m - 1) held_[w * tags_per_word + lowest_bit(m)] = 1;
    nonempty_ ^= std::uint64_t{words_[w] == 0} << w;
    hint_ = w;
    at_rest_ -= count_bits(mask);
    return {mask, w * tags_per_word};
  }

  // As many tags as out has room for, or all that are free. The recent ones count as one pass.
  Taken take_all(std::span<Tag> out) {
    const auto n = std::min(recent_count_, static_cast<std::uint32_t>(out.size()));
    recent_count_ -= n;
    const Tag* const last = recent_.data() + recent_count_;
    for (std::uint32_t i = 0; i < n; ++i) {
      out[i] = last[i];
      held_[raw(last[i])] = 1;
    }
    Taken taken{n, n != 0};
    if (n < out.size()) taken += take_by_passes(*this, out.subspan(n));
    return taken;
  }

  void put(Tag tag) {
    const std::uint32_t t = raw(tag);
    UBLKD_CHECK(t < depth_max && held_[t] != 0);
    held_[t] = 0;
    if (recent_count_ == recent_max) [[unlikely]] settle(recent_max / 2);
    recent_[recent_count_++] = tag;
  }

  // A batch of one word goes to rest in one step. Not empty.
  void put(TagBatch batch) {
    UBLKD_CHECK(!batch.empty() && batch.base + static_cast<std::uint32_t>(std::bit_width(batch.mask)) <= depth_);
    const std::uint32_t w = batch.base / tags_per_word;
    for (TagBatch b = batch; !b.empty();) {
      const std::uint32_t t = raw(b.pop());
      UBLKD_CHECK(held_[t] != 0);
      held_[t] = 0;
    }
    words_[w] |= batch.mask;
    nonempty_ |= bit(w);
    at_rest_ += batch.count();
  }

 private:
  static_assert(tag_words_max <= 64, "one summary word");
  static constexpr std::uint32_t recent_max = 64;

  static std::uint64_t bit(std::uint32_t t) { return std::uint64_t{1} << (t % 64); }

  void rest(std::uint32_t t) {
    words_[t / tags_per_word] |= bit(t);
    nonempty_ |= bit(t / tags_per_word);
  }

  // Moves the n oldest of the recent tags to rest.
  void settle(std::uint32_t n) {
    for (std::uint32_t i = 0; i < n; ++i) rest(raw(recent_[i]));
    std::copy(recent_.begin() + n, recent_.begin() + recent_count_, recent_.begin());
    recent_count_ -= n;
    at_rest_ += n;
  }

  std::uint32_t depth_;
  std::uint32_t at_rest_;
  std::uint32_t hint_ = 0;
  std::uint32_t recent_count_ = 0;
  std::uint64_t nonempty_ = 0;
  std::array<Tag, recent_max> recent_{};
  std::array<std::uint64_t, tag_words_max> words_{};
  std::array<std::uint8_t, depth_max> held_{};  // by tag
};

static_assert(TagPoolLike<TagPool>);

}  // namespace ublkd
