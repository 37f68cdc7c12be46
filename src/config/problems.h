// Problems: collects what is wrong with one input, each with its place, and makes one Error of it.
//
// Thread rule: one thread.
// Invariants:
//   1. A line reads FILE:LINE:COLUMN: key.path[2].key: what was expected, what was found; what to do.
//      Without an origin (a value from an API call or a command line) it starts with the key path.
//   2. At most problems_max lines are kept; the rest is counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ublkd/result.h"

namespace ublkd {

inline constexpr std::size_t problems_max = 20;

// Where a character stands: both from 1, a column is one code point. Line 0: nowhere.
struct TextPosition {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
};

class Problems {
 public:
  explicit Problems(std::string origin) : origin_(std::move(origin)) {}

  void add(TextPosition at, std::string_view path, std::string message);
  [[nodiscard]] bool empty() const { return found_.empty(); }
  [[nodiscard]] bool full() const { return found_.size() == problems_max; }

  // One Error of kind invalid: the first problem as subject and advice, further ones as further
  // lines of the advice. Not to be called when empty.
  [[nodiscard]] Unexpected error() const;

 private:
  struct Problem {
    std::string place;
    std::string message;
  };
  std::string origin_;
  std::vector<Problem> found_;
  std::size_t dropped_ = 0;
};

// Path of a member: "devices[0]" + "name" -> "devices[0].name". Odd keys are quoted.
[[nodiscard]] std::string member_path(std::string_view path, std::string_view key);
[[nodiscard]] std::string item_path(std::string_view path, std::size_t index);

}  // namespace ublkd
