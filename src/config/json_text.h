// JSON text -> a tree of nodes that know where they stand in the text.
//
// Thread rule: pure function, plain values, any thread.
// Strict JSON (RFC 8259): no comments, no trailing commas, no NaN, Infinity or hexadecimal numbers.
// A UTF-8 byte order mark is skipped; UTF-16 and UTF-32 are refused by name.
// Invariants:
//   1. No key stands twice in one object of a tree that came without problems.
//   2. A tree is at most json_depth_max deep, so walking and destroying it may recurse.
//   3. A whole number is exact; every other number keeps its text and is never rounded to one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/problems.h"

namespace ublkd {

inline constexpr std::size_t json_bytes_max = std::size_t{4} << 20;
inline constexpr std::size_t json_depth_max = 32;      // open brackets at one place
inline constexpr std::size_t json_nodes_max = 262144;  // values in one text

enum class JsonKind : std::uint8_t {
  null,
  boolean,   // flag
  whole,     // number: written as digits only, 0 .. 2^64 - 1
  number,    // text: any other number as written: negative, with '.' or exponent, too large
  text,      // text
  list,      // children, without keys
  object,    // children
  argument,  // text: a word of a command line; what it means depends on the option
};

struct JsonMember;

struct JsonNode {
  JsonKind kind = JsonKind::null;
  TextPosition at;
  bool flag = false;
  std::uint64_t number = 0;
  std::string text;
  std::vector<JsonMember> children;

  // The member of that name, null when there is none.
  [[nodiscard]] const JsonMember* find(std::string_view key) const;
};

struct JsonMember {
  std::string key;
  TextPosition key_at;
  JsonNode value;
};

// What a message says was found: `null`, `the number -1`, `the text "x"`, `a list`.
[[nodiscard]] std::string found_words(const JsonNode& node);

// Nothing when the text cannot be read; problems then says why. Duplicate keys are put into
// problems too, but reading goes on.
[[nodiscard]] std::optional<JsonNode> parse_json_text(std::string_view text, Problems& problems);

}  // namespace ublkd
