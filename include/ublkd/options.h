// Options: one table per target (and per config object) says each option's name, type, range,
// default and help. Config reader, JSON schema, command line and help are all made from it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ublkd {

enum class OptionType : std::uint8_t {
  boolean,
  integer,   // whole number, min .. max
  size,      // bytes; integer or "64MiB"
  duration,  // nanoseconds; integer nanoseconds or "1ms"
  text,
  path,      // absolute path
  choice,    // one of choices
  choices,   // list of distinct choices
  integers,  // list of distinct integers, min .. max
  target,    // a target object: {"type": ..., options}
};

struct OptionSpec {
  std::string_view name;
  OptionType type = OptionType::text;
  std::string_view help;                     // one sentence
  std::string_view default_text = {};        // as a user would write it; empty: none
  bool required = false;
  std::uint64_t min = 0;
  std::uint64_t max = ~std::uint64_t{0};
  std::uint64_t multiple_of = 1;
  std::span<const std::string_view> choices = {};
};

struct TargetSpec;

// Validated values by option name; only what was given or has a default is present.
class OptionValues {
 public:
  using Value = std::variant<bool, std::uint64_t, std::string, std::vector<std::string>,
                             std::vector<std::uint64_t>, std::shared_ptr<const TargetSpec>>;

  void set(std::string name, Value value) { values_.insert_or_assign(std::move(name), std::move(value)); }
  [[nodiscard]] bool has(std::string_view name) const { return values_.find(name) != values_.end(); }
  [[nodiscard]] bool flag(std::string_view name, bool fallback = false) const {
    return get<bool>(name, fallback);
  }
  [[nodiscard]] std::uint64_t number(std::string_view name, std::uint64_t fallback = 0) const {
    return get<std::uint64_t>(name, fallback);
  }
  [[nodiscard]] std::string text(std::string_view name, std::string fallback = {}) const {
    return get<std::string>(name, std::move(fallback));
  }
  [[nodiscard]] std::vector<std::string> words(std::string_view name) const {
    return get<std::vector<std::string>>(name, {});
  }
  [[nodiscard]] std::vector<std::uint64_t> numbers(std::string_view name) const {
    return get<std::vector<std::uint64_t>>(name, {});
  }
  // Null when the option was not given.
  [[nodiscard]] std::shared_ptr<const TargetSpec> target(std::string_view name) const {
    return get<std::shared_ptr<const TargetSpec>>(name, nullptr);
  }
  [[nodiscard]] const std::map<std::string, Value, std::less<>>& all() const { return values_; }
  bool operator==(const OptionValues&) const = default;

 private:
  template <typename T>
  T get(std::string_view name, T fallback) const {
    auto it = values_.find(name);
    if (it == values_.end()) return fallback;
    return std::get<T>(it->second);
  }
  std::map<std::string, Value, std::less<>> values_;
};

// A target as the user asked for it.
struct TargetSpec {
  std::string type;
  OptionValues options;
};

}  // namespace ublkd
