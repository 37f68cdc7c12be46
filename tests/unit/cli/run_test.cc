// What is printed where, and the exit status, without a daemon; and how answers look.
#include "cli/run.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "abi/features.h"
#include "all_types.h"
#include "cli/check_config.h"
#include "cli/direct_features.h"
#include "cli/render.h"
#include "cli/table.h"
#include "cli/usage.h"

namespace ublkd::cli {
namespace {

using nlohmann::json;

Printed run_words(std::vector<std::string> words) {
  return run({std::move(words), "/work", "/nonexistent/ublkd.sock", "1.2.3"}, all_types());
}

TEST(RunTest, NoDaemonIsStatusThreeWithTheWayToStartOne) {
  for (const auto& words : std::vector<std::vector<std::string>>{{"list"}, {"del", "0"}, {"add", "null"}}) {
    const Printed p = run_words(words);
    EXPECT_EQ(p.code, ExitCode::no_daemon);
    EXPECT_EQ(p.out, "");
    EXPECT_EQ(p.err,
              "ublkctl: no ublkd answers on /nonexistent/ublkd.sock: start one: systemctl start ublkd, or "
              "ublkd &\n");
  }
}

TEST(RunTest, JsonErrorsAreADocumentOnStandardOutput) {
  const Printed absent = run_words({"list", "-o", "json"});
  EXPECT_EQ(absent.code, ExitCode::no_daemon);
  EXPECT_EQ(absent.err, "");
  EXPECT_EQ(json::parse(absent.out)["error"]["kind"], "not_found");
  const Printed usage = run_words({"lst", "-o", "json"});
  EXPECT_EQ(usage.code, ExitCode::usage);
  EXPECT_EQ(json::parse(usage.out)["error"]["kind"], "invalid");
}

TEST(RunTest, WrongUsageIsStatusTwo) {
  EXPECT_EQ(run_words({"add", "null", "-z"}).code, ExitCode::usage);
  EXPECT_EQ(run_words({"help", "-t", "nonsense"}).code, ExitCode::usage);
  EXPECT_EQ(run_words({"lst"}).code, ExitCode::usage);
}

TEST(RunTest, SchemaIsJson) {
  EXPECT_TRUE(json::parse(run_words({"schema"}).out).is_object());
}

TEST(RunTest, CheckConfigOfAMissingFileNamesIt) {
  const Printed p = run_words({"check-config", "/nonexistent.json"});
  EXPECT_EQ(p.code, ExitCode::failed);
  EXPECT_NE(p.err.find("/nonexistent.json"), std::string::npos);
}

TEST(RunTest, TargetHelpListsEveryOption) {
  for (const TargetType* type : all_types()) {
    const auto help = target_help(type->name, all_types());
    ASSERT_TRUE(help);
    for (const OptionSpec& spec : type->options)
      EXPECT_NE(help->find("\n  " + std::string(spec.name)), std::string::npos)
          << type->name << " " << spec.name;
  }
}

TEST(CheckConfigTest, SummaryCountsThreadsAndBuffers) {
  const auto config = parse_config(R"({"tag_sets": {"s": {"hw_queues": 2}}, "devices": [
      {"name": "a", "target": {"type": "null", "size": "1GiB"}, "tag_set": "s", "depth": 64},
      {"name": "b", "target": {"type": "null", "size": "1GiB"}, "queues": 4, "max_io_size": "64KiB"}]})",
                                   "", all_types());
  ASSERT_TRUE(config) << config.error().text();
  const ConfigSummary s = summary_of(*config);
  EXPECT_EQ(s.devices, 2U);
  EXPECT_EQ(s.tag_sets_shared, 1U);
  EXPECT_EQ(s.queue_threads, 6U);
  EXPECT_EQ(s.buffer_bytes_max, 2U * 64 * 512 * 1024 + 4U * 128 * 64 * 1024);
}

TEST(TableTest, ColumnsAreAlignedAndNumbersRight) {
  Table t;
  t.add({"ID", "NAME", "SIZE"});
  t.add({"0", "a", "1 GiB"});
  t.add({"10", "longer", "512 B"});
  EXPECT_EQ(t.text(), "ID  NAME    SIZE\n 0  a       1 GiB\n10  longer  512 B\n");
}

TEST(TableTest, HumanBytes) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(std::uint64_t{250} << 30), "250 GiB");
  EXPECT_EQ(human_bytes(~std::uint64_t{0}), "16 EiB");
}

TEST(RenderTest, ListHasALinePerDevice) {
  const json list =
      json::parse(R"({"daemon": {"pid": 1}, "tag_sets": [{"name": "s", "queues": [{"queue": 0}]}],
    "devices": [{"id": 0, "name": "null0", "path": "/dev/ublkb0", "state": "live", "target": "null", "tag_set": "s",
                 "size_bytes": 1073741824, "queues": 1, "queues_asked": 4, "depth": 128, "active": 3, "waiting": 0,
                 "ops": {"read": {"count": 5, "bytes": 4096, "errors": 0}}}]})");
  EXPECT_EQ(device_table(list),
            "ID  NAME   PATH         STATE  TARGET  SIZE   QUEUES  DEPTH  TAG SET  ACTIVE  WAITING\n"
            " 0  null0  /dev/ublkb0  live   null    1 GiB       1    128  s             3        0\n");
  const std::string details = list_details(list);
  EXPECT_NE(details.find("1 GiB (1073741824 bytes)"), std::string::npos) << details;
  EXPECT_NE(details.find("1 of 4 asked x 128"), std::string::npos) << details;
}

TEST(RenderTest, AnswersOfAnotherVersionDoNotBreakIt) {
  for (const char* text :
       {"null", "{}", "[]", "3", R"({"devices": 3, "tag_sets": "x"})", R"({"devices": [1, {}, null]})",
        R"({"features": [1, {"bit": "x"}, {"bit": 99}]})"}) {
    const json value = json::parse(text);
    (void)device_table(value);
    (void)list_details(value);
    (void)device_details(value);
    (void)features_text(value);
  }
}

TEST(FeaturesTest, MaskIsNamedBitByBit) {
  EXPECT_EQ(abi::feature_names(0x8000000000000081),
            (std::vector<std::string>{"SUPPORT_ZERO_COPY", "USER_COPY", "BIT_63"}));
  const json answer = features_json("7.3.4", 0x1fffff);
  EXPECT_EQ(answer["mask"], "0x1fffff");
  EXPECT_EQ(answer["features"].size(), 21U);
  EXPECT_NE(features_text(answer).find("SHMEM_ZC"), std::string::npos);
}

TEST(FeaturesTest, AbsentNodeSaysHowToLoadTheDriver) {
  const auto mask = query_features("/nonexistent/ublk-control");
  ASSERT_FALSE(mask);
  EXPECT_EQ(mask.error().text(),
            "open /nonexistent/ublk-control: No such file or directory; load the driver: modprobe ublk_drv");
}

}  // namespace
}  // namespace ublkd::cli
