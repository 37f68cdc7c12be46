// What the tests of this room share: the real target types, and short ways to read and to ask.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "config/parse.h"
#include "daemon/target_types.h"
#include "targets/null/null_target.h"

namespace ublkd::config_test {

inline TargetTypes test_types() {
  return target_types();
}

inline Result<Config> read(std::string_view text) {
  return parse_config(text, "x.json", test_types());
}

// The whole message of a refused config; empty when it was accepted.
inline std::string refusal(std::string_view text) {
  const auto config = read(text);
  return config ? "" : config.error().text();
}

inline bool has(const std::string& message, std::string_view part) {
  return message.find(part) != std::string::npos;
}

#define EXPECT_HAS(message, part) \
  EXPECT_TRUE(has(message, part)) << "message: " << (message) << "\nmisses: " << (part)

// A config of one null device, with text put between the braces of device and target.
inline std::string one_device(const std::string& device_keys,
                              const std::string& target_keys = R"("size": "1GiB")") {
  return R"({"devices": [{"target": {"type": "null", )" + target_keys + "}" +
         (device_keys.empty() ? "" : ", " + device_keys) + "}]}";
}

// The folder of the examples and the schema.
inline std::filesystem::path config_folder() {
  return std::filesystem::path(__FILE__).parent_path() / ".." / ".." / ".." / "config";
}

}  // namespace ublkd::config_test
