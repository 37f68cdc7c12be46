// The verbs `tags` and `tune` on a device table with tag sets and no device.
#include <gtest/gtest.h>

#include "daemon/tags_status.h"
#include "daemon/tune.h"

namespace ublkd {
namespace {

using nlohmann::json;

class TagsTuneTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"disk", "other"}) {
      Result<void> added;
      asio::co_spawn(io_, table_.add_tag_set({.name = name, .hw_queues = 2, .depth = 32, .slots_total_max = 64}),
                     [&](std::exception_ptr, Result<void> r) { added = std::move(r); });
      io_.run();
      io_.restart();
      if (!added) GTEST_SKIP() << added.error().text();
    }
  }
  json tags(const std::string& only = "") { return tags_status(table_, fairness_, only).value(); }
  std::string refusal(const char* args) {
    const auto result = tune(table_, json::parse(args));
    return result ? "" : kind_name(result.error().kind) + std::string(": ") + result.error().text();
  }

  asio::io_context io_;
  ControlEnvironment env_{.io = &io_};
  DeviceTable table_{env_, false};
  FairnessWatch fairness_{io_, table_};
};

TEST_F(TagsTuneTest, AQuietSetIsShownWhole) {
  const json answer = tags();
  ASSERT_EQ(answer["tag_sets"].size(), 2u);
  const json& set = answer["tag_sets"][0];
  EXPECT_EQ(set["name"], "disk");
  EXPECT_EQ(set["private"], false);
  EXPECT_EQ(set["scope"], "queue");
  EXPECT_EQ(set["policy"], "adaptive");
  EXPECT_EQ(set["grace_ns"], 5'000'000);
  EXPECT_EQ(set["idle_after_ns"], 5'000'000'000);
  EXPECT_TRUE(set["jain"].is_null());
  ASSERT_EQ(set["pools"].size(), 2u);
  EXPECT_EQ(set["pools"][1]["queue"], 1);
  EXPECT_EQ(set["pools"][1]["free"], 32);
  EXPECT_EQ(set["pools"][1]["devices"], json::array());
}

TEST_F(TagsTuneTest, OneSetByNameOrTheNamesThatThereAre) {
  EXPECT_EQ(tags("other")["tag_sets"].size(), 1u);
  const auto missing = tags_status(table_, fairness_, "dsik");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::not_found);
  EXPECT_EQ(missing.error().text(), "tag set dsik: there are disk, other");
}

TEST_F(TagsTuneTest, AChangeIsInForceAndAnswered) {
  const auto result =
      tune(table_, json::parse(R"({"tag_set": "disk", "change": {"policy": "equal", "idle_after": "1s"}})"));
  ASSERT_TRUE(result) << result.error().text();
  EXPECT_EQ(*result, json::parse(R"({"tag_set": "disk", "scope": "queue", "policy": "equal", "grace_ns": 5000000,
                                     "idle_after_ns": 1000000000})"));
  EXPECT_EQ(tags("disk")["tag_sets"][0]["policy"], "equal");
  EXPECT_EQ(tags("other")["tag_sets"][0]["policy"], "adaptive");
}

TEST_F(TagsTuneTest, WhatIsRefusedChangesNothing) {
  const json before = tags()["tag_sets"];
  EXPECT_EQ(refusal(R"({"tag_set": "none", "change": {"policy": "equal"}})"),
            "not_found: tune tag set none: there are disk, other");
  EXPECT_EQ(refusal(R"({"device": "a", "change": {"weight": 2}})"), "not_found: tune device a: there are none");
  for (const char* args : {R"({"tag_set": "disk", "change": {"policy": "fair"}})",
                           R"({"tag_set": "disk", "change": {"policy": "equal", "grace": "1us"}})",
                           R"({"tag_set": "disk", "change": {"policy": "equal", "depth": 4}})",
                           R"({"tag_set": "disk", "change": {}})", R"({"tag_set": "disk", "change": 3})",
                           R"({"tag_set": "disk"})", R"({"change": {"policy": "equal"}})",
                           R"({"tag_set": 3, "change": {}})",
                           R"({"tag_set": "disk", "device": "a", "change": {"weight": 1}})"})
    EXPECT_TRUE(refusal(args).starts_with("invalid: ")) << args << ": " << refusal(args);
  EXPECT_EQ(tags()["tag_sets"], before);
}

}  // namespace
}  // namespace ublkd
