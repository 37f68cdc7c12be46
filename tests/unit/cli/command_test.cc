#include "cli/command.h"

#include <gtest/gtest.h>

#include <sstream>

#include "all_types.h"

namespace ublkd::cli {
namespace {

Result<Command> parse(const std::string& words) {
  std::istringstream in(words);
  CommandLine line;
  line.working_dir = "/work";
  line.socket_default = "/run/ublkd/ublkd.sock";
  line.version = "1.2.3";
  for (std::string word; in >> word;) line.words.push_back(word);
  return parse_command(line, all_types());
}

TEST(CommandTest, GlobalOptionsStandBeforeOrAfterTheVerb) {
  for (const char* words :
       {"-o json --socket /s list", "list -o json --socket /s", "list --output=json --socket=/s",
        "--json list --socket /s", "-o json list --socket /s"}) {
    const auto command = parse(words);
    ASSERT_TRUE(command) << words << ": " << command.error().text();
    EXPECT_EQ(command->verb, Verb::list);
    EXPECT_EQ(command->output, Output::json) << words;
    EXPECT_EQ(command->socket, "/s") << words;
  }
}

TEST(CommandTest, DefaultsAreTextAndTheUsualSocket) {
  const auto command = parse("list");
  ASSERT_TRUE(command);
  EXPECT_EQ(command->output, Output::text);
  EXPECT_EQ(command->socket, "/run/ublkd/ublkd.sock");
  EXPECT_EQ(command->time_max, std::chrono::seconds(time_max_default_s));
}

TEST(CommandTest, DelTakesNumbersNamesPathsOrAll) {
  EXPECT_EQ(parse("del -n 0")->args, nlohmann::json::parse(R"({"devices":["0"],"force":false})"));
  EXPECT_EQ(parse("del data /dev/ublkb1")->args,
            nlohmann::json::parse(R"({"devices":["data","/dev/ublkb1"],"force":false})"));
  EXPECT_EQ(parse("del -n 0 -n 1 --force")->args,
            nlohmann::json::parse(R"({"devices":["0","1"],"force":true})"));
  EXPECT_EQ(parse("del -a")->args, nlohmann::json::parse(R"({"all":true,"force":false})"));
}

TEST(CommandTest, DelWithoutOrWithTwoMeaningsIsRefused) {
  for (const char* words : {"del", "del -a 0", "del -n data", "del -n -1", "del --async 0"}) {
    const auto command = parse(words);
    ASSERT_FALSE(command) << words;
    EXPECT_EQ(command.error().kind, ErrorKind::invalid) << words;
  }
}

TEST(CommandTest, ListTakesOneDevice) {
  EXPECT_EQ(parse("list -n 0 -v")->args, nlohmann::json::parse(R"({"device":"0"})"));
  EXPECT_EQ(parse("list -n 0 -v")->detail, Detail::verbose);
  EXPECT_EQ(parse("list data")->args, nlohmann::json::parse(R"({"device":"data"})"));
  EXPECT_EQ(parse("list")->args, nlohmann::json::object());
  EXPECT_FALSE(parse("list -n 0 data"));
}

TEST(CommandTest, OtherVerbs) {
  EXPECT_EQ(parse("features")->verb, Verb::features);
  EXPECT_EQ(parse("doctor")->verb, Verb::doctor);
  EXPECT_EQ(parse("schema")->verb, Verb::schema);
  EXPECT_EQ(parse("check-config -")->subject, "-");
  EXPECT_EQ(parse("check-config /x.json")->subject, "/x.json");
  EXPECT_FALSE(parse("check-config"));
}

TEST(CommandTest, HelpNamesVerbsTargetsAndExitCodes) {
  for (const char* words : {"", "help", "--help", "-h"}) {
    const auto command = parse(words);
    ASSERT_TRUE(command) << words << ": " << command.error().text();
    EXPECT_EQ(command->verb, Verb::print);
    for (const char* part : {"add", "check-config", "Exit status", "Targets", "null", "doctor"})
      EXPECT_NE(command->text.find(part), std::string::npos) << words << " lacks " << part;
  }
}

TEST(CommandTest, HelpOfAVerbIsThatVerbs) {
  for (const char* words : {"help add", "add --help", "add -h"}) {
    const auto command = parse(words);
    ASSERT_TRUE(command) << words;
    EXPECT_NE(command->text.find("--depth"), std::string::npos) << words;
    EXPECT_EQ(command->text.find("zerocopy"), std::string::npos) << words;
  }
  EXPECT_FALSE(parse("help nonsense"));
}

TEST(CommandTest, HelpOfATarget) {
  EXPECT_EQ(parse("help -t null")->verb, Verb::help_target);
  EXPECT_EQ(parse("help -t null")->subject, "null");
  EXPECT_EQ(parse("help -t loop")->subject, "file");
}

TEST(CommandTest, Version) {
  const auto command = parse("--version");
  ASSERT_TRUE(command);
  EXPECT_EQ(command->text, "ublkctl 1.2.3\n");
}

TEST(CommandTest, WrongUsageIsOneLineThatLeadsToTheHelp) {
  for (const char* words :
       {"lst", "list --wrong", "--wrong list", "add -n", "list --timeout 0", "list -o yaml"}) {
    const auto command = parse(words);
    ASSERT_FALSE(command) << words;
    EXPECT_EQ(command.error().kind, ErrorKind::invalid) << words;
    EXPECT_EQ(command.error().text().find('\n'), std::string::npos) << words;
  }
}

TEST(CommandTest, UnknownVerbNamesTheNearest) {
  EXPECT_EQ(parse("-o json lst").error().text(), "lst: no such verb; did you mean list?");
  EXPECT_NE(parse("frobnicate").error().text().find("there are add, del, list"), std::string::npos);
}

TEST(CommandTest, AskedOutputIsKnownThoughTheRestIsWrong) {
  EXPECT_EQ(asked_output({"lst", "-o", "json"}), Output::json);
  EXPECT_EQ(asked_output({"--json", "x"}), Output::json);
  EXPECT_EQ(asked_output({"x", "--output=json"}), Output::json);
  EXPECT_EQ(asked_output({"x", "-o"}), Output::text);
}

}  // namespace
}  // namespace ublkd::cli
