// TagBatch: tags of one pool that move together, and what every tag pool offers: TagPoolLike.
//
//   mask  0 0 1 0 1 1 0 ... 1     bit i: tag base + i; at most one word of the pool, holes allowed
//
// Batches do not give up. (The kernel's batch take does: linux-block, __sbitmap_queue_get_batch() gives nothing where
// first free bit + asked exceeds the word.) A pass that gets a part is asked again for the rest, until the plug is
// satisfied or a pass finds nothing: take_by_passes().
//
// Thread rule: values; one owner.
// Invariants:
//   1. base is a multiple of tags_per_word.
//   2. A batch that is not empty comes from one take, or was gathered by add() from tags of one word.
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <cstdint>
#include <span>

#include "ublkd/queue_port.h"
#include "ublkd/units.h"

namespace ublkd {

inline constexpr std::uint32_t tags_per_word = 64;
inline constexpr std::uint32_t tag_words_max = depth_max / tags_per_word;

// Sums of set bits: byte i of the result counts bytes 0 .. i of m. Written out, since the oldest x86-64 has no
// instruction that counts bits and std::popcount is then a call.
constexpr std::uint64_t bit_sums(std::uint64_t m) {
  m -= (m >> 1) & 0x5555'5555'5555'5555;
  m = (m & 0x3333'3333'3333'3333) + ((m >> 2) & 0x3333'3333'3333'3333);
  m = (m + (m >> 4)) & 0x0f0f'0f0f'0f0f'0f0f;
  return m * 0x0101'0101'0101'0101;
}

constexpr std::uint32_t count_bits(std::uint64_t m) { return static_cast<std::uint32_t>(bit_sums(m) >> 56); }

// Place of the lowest set bit. m is not 0.
constexpr std::uint32_t lowest_bit(std::uint64_t m) { return static_cast<std::uint32_t>(__builtin_ctzll(m)); }

// The n lowest set bits of m, or all when it has no more: whole bytes first, then bit by bit in the byte where it ends.
constexpr std::uint64_t lowest_bits(std::uint64_t m, std::uint32_t n) {
  if (n == 1) return m & -m;
  constexpr std::uint64_t byte_ones = 0x0101'0101'0101'0101, byte_tops = 0x8080'8080'8080'8080;
  const std::uint64_t sums = bit_sums(m);
  if ((sums >> 56) <= n) return m;
  // The top bit of a byte stays exactly where its sum is at most n; sums are below 128.
  const std::uint64_t too_many = ~((n * byte_ones | byte_tops) - sums) & byte_tops;
  const std::uint32_t end = lowest_bit(too_many) & ~7u;
  std::uint32_t left = n - static_cast<std::uint32_t>((sums << 8) >> end & 0xff);
  std::uint64_t rest = m >> end << end;
  for (; left > 0; --left) rest &= rest - 1;
  return m ^ rest;
}

struct TagBatch {
  std::uint64_t mask = 0;
  std::uint32_t base = 0;

  [[nodiscard]] bool empty() const { return mask == 0; }
  [[nodiscard]] std::uint32_t count() const { return count_bits(mask); }

  // Precondition: not empty.
  Tag pop() {
    const std::uint32_t bit = lowest_bit(mask);
    mask &= mask - 1;
    return Tag(static_cast<std::uint16_t>(base + bit));
  }

  // Writes all tags, in order, to out; returns how many. Each bit is found after the one below it was cleared: a mask
  // with many is cut into two such chains, which the CPU follows side by side.
  std::uint32_t expand(Tag* out) const {
    const std::uint32_t n = count();
    std::uint64_t low = mask, high = 0;
    if (n >= tags_per_word / 4) {
      const std::uint32_t middle = (lowest_bit(mask) + static_cast<std::uint32_t>(std::bit_width(mask))) / 2;
      high = mask >> middle << middle;
      low = mask ^ high;
    }
    Tag* at = out + (n - count_bits(high));
    for (; high != 0 && low != 0; high &= high - 1, low &= low - 1) {
      *out++ = tag(lowest_bit(low));
      *at++ = tag(lowest_bit(high));
    }
    for (; low != 0; low &= low - 1) *out++ = tag(lowest_bit(low));
    for (; high != 0; high &= high - 1) *at++ = tag(lowest_bit(high));
    return n;
  }

  // Gathers a tag that is to be put. False: it belongs to another word than those gathered; put these first.
  [[nodiscard]] bool add(Tag tag) {
    const std::uint32_t word = raw(tag) & ~(tags_per_word - 1);
    if (word != base) {
      if (mask != 0) return false;
      base = word;
    }
    const std::uint64_t bit = std::uint64_t{1} << (raw(tag) % tags_per_word);
    UBLKD_CHECK((mask & bit) == 0);
    mask |= bit;
    return true;
  }

  [[nodiscard]] Tag tag(std::uint32_t bit) const { return Tag(static_cast<std::uint16_t>(base + bit)); }
};

struct Taken {
  std::uint32_t count = 0;
  std::uint32_t passes = 0;  // that found a tag

  Taken& operator+=(Taken more) {
    count += more.count;
    passes += more.passes;
    return *this;
  }
};

// What the dispatcher needs of a pool.
//   take(wanted)   one pass: 1 .. wanted tags of one word; empty only when no tag was free throughout the pass
//   take_all(out)  passes until out is full or one finds nothing; a part is success, count 0 is "none"
//   put            back, one by one or a batch in one step; putting a free tag ends the process
//   free()         tags not taken; approximate while other threads take and put
template <class Pool>
concept TagPoolLike =
    requires(Pool pool, const Pool& quiet, std::uint32_t wanted, std::span<Tag> out, TagBatch batch, Tag tag) {
      { quiet.depth() } -> std::same_as<std::uint32_t>;
      { quiet.free() } -> std::same_as<std::uint32_t>;
      { pool.take(wanted) } -> std::same_as<TagBatch>;
      { pool.take_all(out) } -> std::same_as<Taken>;
      { pool.put(batch) } -> std::same_as<void>;
      { pool.put(tag) } -> std::same_as<void>;
    };

// take_all() of a pool that can take(): asks again for the rest.
template <class Pool>
Taken take_by_passes(Pool& pool, std::span<Tag> out) {
  Taken taken;
  const auto wanted = static_cast<std::uint32_t>(out.size());
  while (taken.count < wanted) {
    const TagBatch batch = pool.take(wanted - taken.count);
    if (batch.empty()) break;
    ++taken.passes;
    taken.count += batch.expand(out.data() + taken.count);
  }
  return taken;
}

// Gathers the tags that a turn puts, in whatever order they come, into one mask per word, so that each word of the pool
// is written once: on a pool shared by threads that is one atomic step for up to 64 tags.
class TagGather {
 public:
  void add(Tag tag) {
    if (run_.add(tag)) return;
    end_run();
    run_ = {};
    (void)run_.add(tag);
  }

  [[nodiscard]] bool empty() const { return run_.empty() && filled_ == 0; }

  template <TagPoolLike Pool>
  void put_into(Pool& pool) {
    if (filled_ == 0) {
      if (!run_.empty()) pool.put(run_);
    } else {
      end_run();
      for (; filled_ != 0; filled_ &= filled_ - 1) {
        const std::uint32_t word = lowest_bit(filled_);
        pool.put(TagBatch{masks_[word], word * tags_per_word});
        masks_[word] = 0;
      }
    }
    run_ = {};
  }

 private:
  static_assert(tag_words_max <= 64, "one word says which masks are filled");

  void end_run() {
    const std::uint32_t word = run_.base / tags_per_word;
    UBLKD_CHECK(word < tag_words_max && (masks_[word] & run_.mask) == 0);
    masks_[word] |= run_.mask;
    filled_ |= std::uint64_t{1} << word;
  }

  TagBatch run_;  // the last tags, all of one word; most come in runs
  std::uint64_t filled_ = 0;
  std::array<std::uint64_t, tag_words_max> masks_{};
};

}  // namespace ublkd
