// RangeAllocator: contiguous ranges of a fixed table, first fit. Control thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace ublkd {

class RangeAllocator {
 public:
  explicit RangeAllocator(std::uint32_t size) : size_(size) {}

  // Start of a free range of length n, or nothing.
  [[nodiscard]] std::optional<std::uint32_t> take(std::uint32_t n) {
    std::uint32_t at = 0;
    for (const auto& [start, length] : used_) {
      if (start - at >= n) break;
      at = start + length;
    }
    if (n > size_ || at > size_ - n) return std::nullopt;
    if (n > 0) used_.emplace(at, n);
    return at;
  }
  void put(std::uint32_t start) { used_.erase(start); }
  [[nodiscard]] std::uint32_t free() const {
    std::uint32_t n = size_;
    for (const auto& [start, length] : used_) n -= length;
    return n;
  }
  [[nodiscard]] std::uint32_t size() const { return size_; }

 private:
  std::uint32_t size_;
  std::map<std::uint32_t, std::uint32_t> used_;  // start -> length
};

}  // namespace ublkd
