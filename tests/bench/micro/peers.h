// Tag allocators to compare with, as plain as they are usually written; and one way to use each pool from a thread.
//
// Thread rule: a Side belongs to one thread; PlainBitmap and MutexPool may be used by several.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>

#include "mq/atomic_tag_pool.h"
#include "mq/tag_pool.h"

namespace ublkd::bench {

// A lock-free bitmap that takes and puts one bit at a time: one atomic instruction per tag each way.
class PlainBitmap {
 public:
  explicit PlainBitmap(std::uint32_t depth)
      : word_count_(depth / tags_per_word), words_(std::make_unique<std::atomic<std::uint64_t>[]>(word_count_)) {
    UBLKD_CHECK(depth % tags_per_word == 0);
    for (std::uint32_t w = 0; w < word_count_; ++w) words_[w] = ~std::uint64_t{0};
  }

  [[nodiscard]] std::uint32_t word_count() const { return word_count_; }

  Tag take(std::uint32_t& hint) {
    for (std::uint32_t seen = 0; seen < word_count_; ++seen) {
      for (std::uint64_t free = words_[hint].load(); free != 0; free = words_[hint].load()) {
        const std::uint32_t place = lowest_bit(free);
        const std::uint64_t bit = std::uint64_t{1} << place;
        if ((words_[hint].fetch_and(~bit) & bit) != 0) return Tag(static_cast<std::uint16_t>(hint * 64 + place));
      }
      if (++hint == word_count_) hint = 0;
    }
    return tag_none;
  }

  void put(Tag tag) { words_[raw(tag) / 64].fetch_or(std::uint64_t{1} << (raw(tag) % 64)); }

 private:
  std::uint32_t word_count_;
  std::unique_ptr<std::atomic<std::uint64_t>[]> words_;
};

// The single-owner pool behind a mutex, locked once for a batch.
struct MutexPool {
  explicit MutexPool(std::uint32_t depth) : pool(depth) {}
  std::mutex mutex;
  TagPool pool;
};

// What one of `threads` threads does with a pool: take a batch, put a batch. put() gets the tags in any order.
template <class Pool>
class Side;

template <>
class Side<TagPool> {
 public:
  Side(TagPool& pool, std::uint32_t, std::uint32_t) : pool_(&pool) {}
  std::uint32_t take(std::span<Tag> out) { return pool_->take_all(out).count; }
  void put(std::span<const Tag> tags) {
    for (const Tag tag : tags) pool_->put(tag);
  }

 private:
  TagPool* pool_;
};

// The single-owner pool's bitmap alone: masks out, gathered masks back.
struct MaskPool : TagPool {
  using TagPool::TagPool;
};

template <>
class Side<MaskPool> {
 public:
  Side(MaskPool& pool, std::uint32_t, std::uint32_t) : pool_(&pool) {}
  std::uint32_t take(std::span<Tag> out) { return take_by_passes(*pool_, out).count; }
  void put(std::span<const Tag> tags) {
    for (const Tag tag : tags) gather_.add(tag);
    gather_.put_into(*pool_);
  }

 private:
  MaskPool* pool_;
  TagGather gather_;
};

template <>
class Side<AtomicTagPool> {
 public:
  Side(AtomicTagPool& pool, std::uint32_t thread, std::uint32_t threads) : tags_(pool, thread, threads) {}
  std::uint32_t take(std::span<Tag> out) { return tags_.take_all(out).count; }
  void put(std::span<const Tag> tags) {
    for (const Tag tag : tags) gather_.add(tag);
    gather_.put_into(tags_);
  }

 private:
  SharedTags tags_;
  TagGather gather_;
};

template <>
class Side<PlainBitmap> {
 public:
  Side(PlainBitmap& pool, std::uint32_t thread, std::uint32_t threads)
      : pool_(&pool), hint_(thread * pool.word_count() / threads) {}
  std::uint32_t take(std::span<Tag> out) {
    std::uint32_t n = 0;
    for (; n < out.size(); ++n)
      if ((out[n] = pool_->take(hint_)) == tag_none) break;
    return n;
  }
  void put(std::span<const Tag> tags) {
    for (const Tag tag : tags) pool_->put(tag);
  }

 private:
  PlainBitmap* pool_;
  std::uint32_t hint_;
};

template <>
class Side<MutexPool> {
 public:
  Side(MutexPool& pool, std::uint32_t, std::uint32_t) : pool_(&pool) {}
  std::uint32_t take(std::span<Tag> out) {
    const std::lock_guard lock(pool_->mutex);
    return pool_->pool.take_all(out).count;
  }
  void put(std::span<const Tag> tags) {
    const std::lock_guard lock(pool_->mutex);
    for (const Tag tag : tags) pool_->pool.put(tag);
  }

 private:
  MutexPool* pool_;
};

}  // namespace ublkd::bench
