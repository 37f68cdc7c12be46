// How a tag set is shared: keys of the config, and changes of a running set.
#include <gtest/gtest.h>

#include "config_fixture.h"

namespace ublkd {
namespace {

using namespace config_test;

TagSetConfig set_of(const std::string& keys) {
  const auto config = parse_config("{\"tag_sets\": {\"s\": {" + keys + "}}}", "", test_types());
  EXPECT_TRUE(config) << config.error().text();
  return config ? config->tag_sets.front() : TagSetConfig{};
}

TEST(ShareConfigTest, DefaultsAreAdaptiveByQueue) {
  const TagSetConfig set = set_of("");
  EXPECT_EQ(set.scope, TagScope::queue);
  EXPECT_EQ(set.share.policy, SharePolicy::adaptive);
  EXPECT_EQ(set.share.grace_ns, 5'000'000u);
  EXPECT_EQ(set.share.idle_after_ns, 5'000'000'000u);
}

TEST(ShareConfigTest, EveryKeyIsTaken) {
  const TagSetConfig set = set_of(R"("scope": "set", "policy": "equal", "grace": "20ms", "idle_after": 1000000000)");
  EXPECT_EQ(set.scope, TagScope::set);
  EXPECT_EQ(set.share.policy, SharePolicy::equal);
  EXPECT_EQ(set.share.grace_ns, 20'000'000u);
  EXPECT_EQ(set.share.idle_after_ns, 1'000'000'000u);
  EXPECT_EQ(set_of(R"("policy": "none")").share.policy, SharePolicy::none);
}

TEST(ShareConfigTest, DurationsKeepToTheirRange) {
  for (const char* keys : {R"("grace": "99us")", R"("grace": "11s")", R"("idle_after": 0)", R"("idle_after": "3601s")",
                           R"("policy": "fair")", R"("scope": "device")"})
    EXPECT_NE(refusal(std::string("{\"tag_sets\": {\"s\": {") + keys + "}}}"), "") << keys;
}

TEST(ShareConfigTest, ADevicesTimeout) {
  const auto timeout_of = [](const std::string& keys) {
    return parse_config(one_device(keys), "", test_types())->devices.front().timeout_ns;
  };
  EXPECT_EQ(timeout_of(""), 0u);
  EXPECT_EQ(timeout_of(R"("timeout": "200ms")"), 200'000'000u);
  EXPECT_EQ(timeout_of(R"("timeout": "86400s")"), 86'400'000'000'000u);
  EXPECT_NE(refusal(one_device(R"("timeout": "86401s")")), "");
}

TEST(ShareChangeTest, ChangesWhatItNamesAndNothingElse) {
  const ShareParams now{.policy = SharePolicy::equal, .grace_ns = 1'000'000, .idle_after_ns = 2'000'000'000};
  const auto changed = parse_share_change(R"({"grace": "7ms"})", now);
  ASSERT_TRUE(changed) << changed.error().text();
  EXPECT_EQ(changed->policy, SharePolicy::equal);
  EXPECT_EQ(changed->grace_ns, 7'000'000u);
  EXPECT_EQ(changed->idle_after_ns, 2'000'000'000u);
  EXPECT_EQ(parse_share_change(R"({"policy": "none"})", now)->policy, SharePolicy::none);
}

TEST(ShareChangeTest, WhatIsNoChangeIsRefusedByName) {
  const auto words = [](const char* text) {
    const auto changed = parse_share_change(text, {});
    return changed ? std::string() : changed.error().text();
  };
  EXPECT_HAS(words("{}"), "expected at least one of: policy, grace, idle_after");
  EXPECT_HAS(words(R"({"depth": 4})"), "expected a known key, found \"depth\"");
  EXPECT_HAS(words(R"({"policy": "equals"})"), "did you mean \"equal\"?");
  EXPECT_HAS(words(R"({"grace": "5 ms"})"), "grace: expected");
  EXPECT_NE(words("[]"), "");
  EXPECT_NE(words("x"), "");
}

TEST(WeightChangeTest, IsAWholeNumberInItsRange) {
  EXPECT_EQ(parse_weight_change(R"({"weight": 1000})").value_or(0), 1000u);
  for (const char* text : {R"({"weight": 0})", R"({"weight": 1001})", R"({"weight": "2"})", R"({"weight": 1.5})", "{}",
                           R"({"weight": 2, "name": "x"})", "null"})
    EXPECT_FALSE(parse_weight_change(text)) << text;
}

}  // namespace
}  // namespace ublkd
