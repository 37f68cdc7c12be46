// Option reader: an object (or words of a command line) + option tables -> checked values.
//
// Thread rule: pure functions, one thread per Problems.
// Invariants:
//   1. What is returned without a problem satisfies its table: type, range, grid, choices, required.
//   2. Every option with a default is present; others only when given.
//   3. The same forms mean the same in JSON and on a command line; a word of a command line stands
//      for the JSON value without quotes, a list for "a,b", a target for its JSON text.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "config/json_text.h"
#include "config/problems.h"
#include "ublkd/options.h"
#include "ublkd/result.h"
#include "ublkd/target.h"

namespace ublkd {

struct ReadScope {
  std::span<const TargetType* const> types;
  Problems& problems;
};

// node: any kind, refused when it is no object. also_known: a key that is read elsewhere.
[[nodiscard]] OptionValues read_options(const JsonNode& node, const std::string& path,
                                        std::span<const OptionSpec> specs, const ReadScope& scope,
                                        std::string_view also_known = {});

// {"type": "null", ...}. Null after a problem.
[[nodiscard]] std::shared_ptr<const TargetSpec> read_target(const JsonNode& node, const std::string& path,
                                                            const ReadScope& scope);

// Adds a problem for key unless it is one of known; names the nearest known key.
void refuse_unknown_key(const JsonMember& member, const std::string& path,
                        std::span<const std::string_view> known, Problems& problems);

// One value of a command line: the text after "key=".
[[nodiscard]] Result<OptionValues::Value> parse_option_text(const OptionSpec& spec, std::string_view text,
                                                            std::span<const TargetType* const> types);

// A target from words of a command line: type and "key=value" each. "target.size=1GiB" sets an
// option of the target that a wrapper owns, "target.type=null" its type.
[[nodiscard]] Result<TargetSpec> parse_target_words(std::string_view type, std::span<const std::string> words,
                                                    std::span<const TargetType* const> types);

}  // namespace ublkd
