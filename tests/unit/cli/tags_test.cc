// tags and tune: what is asked of the daemon, and how the answers look.
#include <gtest/gtest.h>

#include <sstream>

#include "all_types.h"
#include "cli/command.h"
#include "cli/render_tags.h"
#include "cli/table.h"

namespace ublkd::cli {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

Result<Command> parse(const std::string& words) {
  std::istringstream in(words);
  CommandLine line;
  for (std::string word; in >> word;) line.words.push_back(word);
  return parse_command(line, all_types());
}

std::string refusal(const std::string& words) {
  const auto command = parse(words);
  return command ? "" : command.error().text();
}

TEST(TagsCommandTest, AllSetsOrOneAndOnceOrAgain) {
  EXPECT_EQ(parse("tags")->verb, Verb::tags);
  EXPECT_EQ(parse("tags")->args, json::object());
  EXPECT_EQ(parse("tags")->watch, 0ms);
  EXPECT_EQ(parse("tags disk")->args, json::parse(R"({"tag_set": "disk"})"));
  EXPECT_EQ(parse("tags --watch")->watch, 1s);
  EXPECT_EQ(parse("tags --watch=0.25 disk")->watch, 250ms);
  const auto after = parse("tags --watch disk --json");
  ASSERT_TRUE(after) << after.error().text();
  EXPECT_EQ(after->watch, 1s);
  EXPECT_EQ(after->args["tag_set"], "disk");
  EXPECT_EQ(after->output, Output::json);
}

TEST(TagsCommandTest, TheIntervalKeepsToItsRange) {
  EXPECT_EQ(parse("tags --watch=0.1")->watch, 100ms);
  EXPECT_EQ(parse("tags --watch=60")->watch, 60s);
  for (const char* words : {"tags --watch=0", "tags --watch=0.05", "tags --watch=61", "tags --watch=x",
                            "tags --watch=1s", "tags --watch=-1", "tags --watch=1e1", "tags --watch=nan"})
    EXPECT_NE(refusal(words).find("expected seconds from 0.1 to 60"), std::string::npos) << words << refusal(words);
  EXPECT_NE(refusal("tags a b"), "");
}

TEST(TuneCommandTest, SendsWhatIsNamed) {
  EXPECT_EQ(parse("tune tag-set disk --policy equal --grace 5ms --idle-after 2s")->args,
            json::parse(R"({"tag_set": "disk",
                            "change": {"policy": "equal", "grace": 5000000, "idle_after": 2000000000}})"));
  EXPECT_EQ(parse("tune device /dev/ublkb0 --weight 4")->args,
            json::parse(R"({"device": "/dev/ublkb0", "change": {"weight": 4}})"));
  EXPECT_EQ(parse("tune device a --weight 4")->verb, Verb::tune);
}

TEST(TuneCommandTest, BadValuesGetTheWordsOfTheConfig) {
  EXPECT_EQ(refusal("tune device a --weight 0"),
            "weight: expected a whole number from 1 to 1000, found \"0\"; that is 0");
  EXPECT_NE(refusal("tune tag-set s --policy equals").find("did you mean \"equal\"?"), std::string::npos);
  EXPECT_NE(refusal("tune tag-set s --grace 5min").find("grace: expected"), std::string::npos);
  EXPECT_NE(refusal("tune tag-set s --weight 2").find("--weight is for tune device NAME"), std::string::npos);
  EXPECT_NE(refusal("tune device a --policy none").find("--policy is for tune tag-set NAME"), std::string::npos);
  EXPECT_NE(refusal("tune tag-set s").find("--policy, --grace, --idle-after"), std::string::npos);
  EXPECT_NE(refusal("tune set s --policy none").find("expected tag-set or device"), std::string::npos);
  EXPECT_NE(refusal("tune device"), "");
}

const json& answer() {
  static const json value = json::parse(R"({"at_ns": 3000000000, "tag_sets": [{
    "name": "disk", "scope": "queue", "policy": "adaptive", "depth": 32, "depth_asked": 32, "hw_queues": 2,
    "devices_active": 2, "jain": 0.99876,
    "pools": [{"queue": 0, "depth": 32, "free": 2, "waiting": 9, "devices": [
      {"name": "a", "active": 20, "peak": 32, "waiting": 9, "share": 10.667, "weight": 1, "taken": 5000,
       "borrowed": 9.333, "starved_ns": 1500000, "idle_changes": 3,
       "asked": [{"up_to": 1, "count": 1}, {"up_to": 16, "count": 8}], "got": [{"up_to": 4, "count": 9}]}]}]}]})");
  return value;
}

TEST(TagsTextTest, HasAHeadAndARowForEachDeviceOfAQueue) {
  EXPECT_EQ(tags_text(answer(), json()),
            "tag set disk: policy adaptive, scope queue, 32 tags on each of 2 queues, 2 free, 9 waiting, 2 device(s) "
            "active, Jain 0.999\n"
            "DEVICE  QUEUE  ACTIVE  PEAK  WAIT  SHARE  WEIGHT  TAKEN  BORROWED  STARVED  IDLE  BATCH\n"
            "a           0      20    32     9   10.7       1   5000       9.3  1.5ms       3  16/4\n");
}

TEST(TagsTextTest, OnePoolForTheSetIsQueueAll) {
  json one = answer();
  json& set = one["tag_sets"][0];
  set["scope"] = "set";
  set["jain"] = nullptr;
  set["pools"][0]["queue"] = nullptr;
  const std::string text = tags_text(one, json());
  EXPECT_NE(text.find("32 tags for 2 queues"), std::string::npos) << text;
  EXPECT_NE(text.find("Jain n/a"), std::string::npos) << text;
  EXPECT_NE(text.find("a       all"), std::string::npos) << text;
}

TEST(TagsTextTest, RatesAreOfTheTimeBetweenTheAnswers) {
  json before = answer();
  before["at_ns"] = 2500000000;
  before["tag_sets"][0]["pools"][0]["devices"][0]["taken"] = 4000;
  EXPECT_NE(tags_text(answer(), before).find("TAKEN  TAKEN/s  BORROWED"), std::string::npos);
  EXPECT_NE(tags_text(answer(), before).find("5000     2000"), std::string::npos) << tags_text(answer(), before);
  EXPECT_NE(tags_text(answer(), json::object()).find("5000        -  "), std::string::npos)
      << tags_text(answer(), json::object());
}

TEST(TagsTextTest, AnswersOfAnotherVersionDoNotBreakIt) {
  for (const char* text : {"null", "{}", "[]", "3",
                           R"({"tag_sets": [1, {}, null, {"pools": [1, {"devices": [2, {}]}]}]})",
                           R"({"tag_sets": [{"pools": [{"devices": [{"asked": 3, "got": [4], "taken": "x"}]}]}]})"}) {
    const json value = json::parse(text);
    (void)tags_text(value, value);
    (void)tags_text(value, json());
    (void)tune_text(value);
  }
}

TEST(TuneTextTest, SaysWhatIsInForce) {
  EXPECT_EQ(tune_text(json::parse(R"({"device": "a", "weight": 4})")), "device a: weight 4\n");
  EXPECT_EQ(tune_text(json::parse(R"({"tag_set": "s", "policy": "equal", "grace_ns": 5000000,
                                      "idle_after_ns": 1500000000})")),
            "tag set s: policy equal, grace 5ms, idle_after 1.5s\n");
}

TEST(TableTest, HumanDuration) {
  EXPECT_EQ(human_duration(0), "0");
  EXPECT_EQ(human_duration(999), "999ns");
  EXPECT_EQ(human_duration(1500), "1.5us");
  EXPECT_EQ(human_duration(5e9), "5s");
  EXPECT_EQ(human_duration(5e12), "5000s");
}

}  // namespace
}  // namespace ublkd::cli
