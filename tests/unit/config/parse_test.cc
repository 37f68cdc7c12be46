// From text to config: values, defaults, limits, and what must hold between the parts.
#include "config/parse.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <fstream>

#include "base/fd.h"
#include "config/json_text.h"
#include "config_fixture.h"

namespace ublkd {
namespace {

using namespace config_test;

TEST(ParseTest, TheSmallestConfigIsAnEmptyObject) {
  const auto config = read("{}");
  ASSERT_TRUE(config);
  EXPECT_TRUE(config->devices.empty());
  EXPECT_EQ(config->origin, "x.json");
}

TEST(ParseTest, EveryKeyArrivesInItsField) {
  const auto config = read(R"({"$schema": "any",
    "tag_sets": {"s": {"hw_queues": 2, "depth": 64, "policy": "none", "cpus": [0, 3], "devices_max": 5,
                       "slots_total_max": 300}},
    "devices": [{"name": "a", "id": 3, "target": {"type": "null", "size": "1MiB"}, "tag_set": "s", "depth": 32,
                 "weight": 7, "logical_block_size": 4096, "max_io_size": "64KiB", "buffer_mode": "copy",
                 "read_only": true, "scheduler": "bfq"},
                {"target": {"type": "null", "size": 512}, "queues": 3}]})");
  ASSERT_TRUE(config) << config.error().text();
  const TagSetConfig& set = config->tag_sets.at(0);
  EXPECT_EQ(set.name, "s");
  EXPECT_EQ(set.hw_queues, 2U);
  EXPECT_EQ(set.depth, 64U);
  EXPECT_EQ(set.cpus, (std::vector<std::uint32_t>{0, 3}));
  EXPECT_EQ(set.devices_max, 5U);
  EXPECT_EQ(set.slots_total_max, 300U);
  const DeviceConfig& device = config->devices.at(0);
  EXPECT_EQ(device.name, "a");
  EXPECT_EQ(device.id, 3U);
  EXPECT_EQ(device.target.type, "null");
  EXPECT_EQ(device.target.options.number("size"), 1048576U);
  EXPECT_EQ(device.tag_set, "s");
  EXPECT_EQ(device.queues, 0U);
  EXPECT_EQ(device.depth, 32U);
  EXPECT_EQ(device.weight, 7U);
  EXPECT_EQ(device.logical_block_bytes, 4096U);
  EXPECT_EQ(device.io_bytes_max, 65536U);
  EXPECT_EQ(device.buffer_mode, BufferMode::copy);
  EXPECT_TRUE(device.read_only);
  EXPECT_EQ(device.scheduler, "bfq");
  EXPECT_EQ(config->devices.at(1).queues, 3U);
}

TEST(ParseTest, DefaultsAreThoseOfTheStructs) {
  const auto config =
      read(R"({"tag_sets": {"s": {}}, "devices": [{"target": {"type": "null", "size": 512}}]})");
  ASSERT_TRUE(config);
  const TagSetConfig set;
  EXPECT_EQ(config->tag_sets[0].hw_queues, set.hw_queues);
  EXPECT_EQ(config->tag_sets[0].depth, set.depth);
  EXPECT_EQ(config->tag_sets[0].devices_max, set.devices_max);
  EXPECT_EQ(config->tag_sets[0].slots_total_max, set.slots_total_max);
  const DeviceConfig device;
  EXPECT_EQ(config->devices[0].depth, slots_default);
  EXPECT_EQ(config->devices[0].weight, device.weight);
  EXPECT_EQ(config->devices[0].buffer_mode, device.buffer_mode);
  EXPECT_EQ(config->devices[0].scheduler, device.scheduler);
  EXPECT_FALSE(config->devices[0].id);
  EXPECT_EQ(config->devices[0].target.options.number("accept_max", 99), 0U);
}

TEST(ParseTest, A68_SizeTwiceInOneDeviceIsRefused) {
  const std::string message =
      refusal("{\"devices\": [{\"target\": {\"type\": \"null\",\n\"size\": 512,\n\"size\": 1024}}]}");
  EXPECT_TRUE(message.starts_with("x.json:3:1: devices[0].target.size: ")) << message;
}

struct NumberRow {
  std::string_view written;
  std::uint64_t size_bytes;  // 0: refused
  std::uint64_t depth;       // 0: refused
};

TEST(ParseTest, A69_TheTableOfNumbers) {
  constexpr NumberRow table[] = {
      {"-1", 0, 0},
      {"0", 0, 0},
      {"-0", 0, 0},
      {"4096", 4096, 4096},
      {"4096.0", 0, 0},
      {"4096.5", 0, 0},
      {"1e6", 0, 0},
      {"9007199254740993", 9007199254740993ULL, 0},
      {"9223372036854775296", 9223372036854775296ULL, 0},
      {"9223372036854775297", 0, 0},
      {"9223372036854775808", 0, 0},
      {"18446744073709551615", 0, 0},
      {"18446744073709551616", 0, 0},
      {"NaN", 0, 0},
      {"Infinity", 0, 0},
      {"-Infinity", 0, 0},
      {"0x1000", 0, 0},
      {"\"4096\"", 0, 0},
      {"\"4096B\"", 4096, 0},
  };
  for (const NumberRow& row : table) {
    const auto size = read(one_device("", fmt::format("\"size\": {}", row.written)));
    EXPECT_EQ(size.has_value(), row.size_bytes != 0) << row.written;
    if (size) {
      EXPECT_EQ(size->devices[0].target.options.number("size"), row.size_bytes);
    } else {
      EXPECT_HAS(size.error().text(), "expected");
    }
    const auto depth = read(one_device(fmt::format("\"depth\": {}", row.written)));
    EXPECT_EQ(depth.has_value(), row.depth != 0) << row.written;
    if (depth) {
      EXPECT_EQ(depth->devices[0].depth, row.depth);
    } else {
      EXPECT_HAS(depth.error().text(), "expected");
    }
  }
}

TEST(ParseTest, A69_RefusalsSayWhatToWrite) {
  EXPECT_EQ(
      refusal(one_device("\"depth\": 4096.0")),
      "x.json:1:68: devices[0].depth: expected a whole number from 1 to 4096, found the number 4096.0; it is "
      "not written as a whole number, write digits only");
  EXPECT_HAS(refusal(one_device("\"depth\": -1")), "found the number -1; negative numbers are not accepted");
  EXPECT_HAS(refusal(one_device("\"depth\": \"128\"")), "found the text \"128\"; write it without quotes");
}

TEST(ParseTest, DepthBeyondItsCapIsRefusedWithTheCap) {
  for (const std::string_view depth : {"0", "4097", "65536"}) {
    const std::string device = refusal(one_device(fmt::format("\"depth\": {}", depth)));
    EXPECT_HAS(
        device,
        fmt::format("devices[0].depth: expected a whole number from 1 to 4096, found the number {}", depth));
    const std::string set = refusal(fmt::format(R"({{"tag_sets": {{"s": {{"depth": {}}}}}}})", depth));
    EXPECT_HAS(
        set,
        fmt::format("tag_sets.s.depth: expected a whole number from 1 to 4096, found the number {}", depth));
  }
  EXPECT_EQ(refusal(one_device("\"depth\": 1")), "");
  EXPECT_EQ(refusal(one_device("\"depth\": 4096")), "");
}

TEST(ParseTest, BlockAndIoSizesKeepTheirLimits) {
  for (const std::string_view good : {"512", "1024", "2048", "4096", "\"4KiB\"", "\"512B\""})
    EXPECT_EQ(refusal(one_device(fmt::format("\"logical_block_size\": {}", good))), "");
  for (const std::string_view bad : {"0", "1", "511", "1536", "8192", "\"8KiB\""})
    EXPECT_HAS(refusal(one_device(fmt::format("\"logical_block_size\": {}", bad))),
               "out of 512, 1024, 2048, 4096");
  for (const std::string_view good : {"4096", "\"32MiB\"", "\"12KiB\""})
    EXPECT_EQ(refusal(one_device(fmt::format("\"max_io_size\": {}", good))), "");
  for (const std::string_view bad : {"0", "4095", "6144", "\"33MiB\"", "33554433"})
    EXPECT_HAS(refusal(one_device(fmt::format("\"max_io_size\": {}", bad))),
               "from 4096 to 33554432, a multiple of 4096");
}

TEST(ParseTest, A73_SizesInAConfig) {
  for (const std::string_view text : {"1M", "1MB", "1m", "1 MiB", "1Mx", "M", ""}) {
    const std::string message = refusal(one_device("", fmt::format("\"size\": \"{}\"", text)));
    EXPECT_HAS(message, "x.json:1:50: devices[0].target.size: expected");
    EXPECT_HAS(message, fmt::format("\"{}\"", text));
  }
}

TEST(ParseTest, UnknownKeysAreRefusedWithTheNearestKnownOne) {
  EXPECT_HAS(refusal(R"({"device": []})"),
             "x.json:1:2: device: expected a known key, found \"device\"; did you mean \"devices\"?");
  EXPECT_HAS(refusal(one_device("\"dept\": 1")),
             "devices[0].dept: expected a known key, found \"dept\"; did you mean \"depth\"?");
  EXPECT_HAS(refusal(one_device("", "\"size\": 512, \"siez\": 1")), "devices[0].target.siez");
  EXPECT_HAS(refusal(one_device("", "\"size\": 512, \"wholly_other\": 1")),
             "known are type, size, accept_max");
  EXPECT_HAS(refusal(R"({"devices": [{"target": {"type": "nul", "size": 1}}]})"), "did you mean \"null\"?");
}

TEST(ParseTest, WhatIsRequiredIsAskedFor) {
  EXPECT_HAS(refusal(R"({"devices": [{}]})"), "x.json:1:14: devices[0].target: expected a target object");
  EXPECT_HAS(refusal(R"({"devices": [{"target": {}}]})"),
             "devices[0].target.type: expected one of null, file");
  EXPECT_HAS(refusal(R"({"devices": [{"target": {"type": "delay"}}]})"),
             "devices[0].target.target: expected a target object");
}

TEST(ParseTest, AllIndependentProblemsComeAtOnce) {
  const std::string message = refusal(
      "{\"devices\": [\n{\"target\": {\"type\": \"null\", \"size\": 1}, \"depth\": 0},\n{\"x\": 1}]}");
  EXPECT_HAS(message, "x.json:2:37: devices[0].target.size");
  EXPECT_HAS(message, "\nx.json:2:50: devices[0].depth");
  EXPECT_HAS(message, "\nx.json:3:2: devices[1].x");
  EXPECT_HAS(message, "\nx.json:3:1: devices[1].target");
}

TEST(ParseTest, TheNumberOfProblemsToldIsBounded) {
  std::string keys;
  for (int i = 0; i < 50'000; ++i) keys += fmt::format(", \"unknown{}\": 0", i);
  EXPECT_LT(refusal("{\"devices\": []" + keys + "}").size(), 10'000U);
  EXPECT_LT(refusal(one_device("\"depth\": 1" + keys)).size(), 10'000U);
}

TEST(ParseTest, NamesAndIdsAreDistinct) {
  const auto two = [](std::string_view a, std::string_view b) {
    constexpr std::string_view target = R"("target": {"type": "null", "size": 512})";
    return fmt::format("{{\"devices\": [{{{}, {}}},\n{{{}, {}}}]}}", a, target, b, target);
  };
  EXPECT_EQ(refusal(two(R"("name": "a", "id": 1)", R"("name": "b", "id": 2)")), "");
  EXPECT_HAS(refusal(two(R"("name": "a")", R"("name": "a")")),
             "x.json:2:10: devices[1].name: expected a value of its own, found the one of line 1");
  EXPECT_HAS(refusal(two(R"("id": 1)", R"("id": 1)")), "x.json:2:8: devices[1].id");
}

TEST(ParseTest, NamesKeepToTheirCharacters) {
  for (const std::string& good : {std::string("a"), std::string("0a"), std::string("pvc-1f.x_Y"),
                                  std::string(64, 'a'), std::string("ublkb")})
    EXPECT_EQ(refusal(one_device("\"name\": \"" + good + "\"")), "") << good;
  for (const std::string& bad :
       {std::string("a b"), std::string("a/b"), std::string(".a"), std::string("-a"), std::string("7"),
        std::string("ublkb7"), std::string("\\u00e4"), std::string(65, 'a')}) {
    EXPECT_HAS(refusal(one_device("\"name\": \"" + bad + "\"")),
               "devices[0].name: expected a name of 1 to 64");
    EXPECT_HAS(refusal("{\"tag_sets\": {\"" + bad + "\": {}}}"), "expected a name of 1 to 64");
  }
}

TEST(ParseTest, ATagSetThatIsNamedMustExist) {
  EXPECT_HAS(refusal(one_device(R"("tag_set": "s")")),
             "devices[0].tag_set: expected the name of a tag set, found \"s\"; add it to tag_sets");
  EXPECT_HAS(
      refusal(
          R"({"tag_sets": {"t": {}}, "devices": [{"tag_set": "s", "target": {"type": "null", "size": 512}}]})"),
      "there are t");
}

TEST(ParseTest, ASharedTagSetDecidesTheQueues) {
  EXPECT_HAS(
      refusal(
          R"({"tag_sets": {"s": {}}, "devices": [{"tag_set": "s", "queues": 2,
            "target": {"type": "null", "size": 512}}]})"),
      "devices[0].queues: expected no queues in a device of tag set \"s\"");
}

TEST(ParseTest, APrivateTagSetCannotHaveTheNameOfASharedOne) {
  EXPECT_HAS(
      refusal(
          R"({"tag_sets": {"s": {}}, "devices": [{"name": "s", "target": {"type": "null", "size": 512}}]})"),
      "devices[0].name: expected a name that no tag set has");
}

TEST(ParseTest, DevicesAndSlotsOfASetKeepToItsLimits) {
  const auto config = [](std::string_view limits, int devices) {
    std::string list;
    for (int i = 0; i < devices; ++i)
      list += fmt::format(R"({}{{"tag_set": "s", "depth": 64, "target": {{"type": "null", "size": 512}}}})",
                          i == 0 ? "" : ",", i);
    return fmt::format(R"({{"tag_sets": {{"s": {{{}}}}}, "devices": [{}]}})", limits, list);
  };
  EXPECT_EQ(refusal(config(R"("slots_total_max": 256)", 4)), "");
  EXPECT_HAS(refusal(config(R"("slots_total_max": 256)", 5)),
             "tag_sets.s: expected at most slots_total_max = 256 slots per hardware queue, found 320 over 5 "
             "devices");
  EXPECT_EQ(refusal(config(R"("devices_max": 2)", 2)), "");
  EXPECT_HAS(refusal(config(R"("devices_max": 2)", 3)),
             "tag_sets.s: expected at most devices_max = 2 devices");
}

TEST(ParseDeviceTest, ReadsOneDeviceWithoutAFileName) {
  const auto device = parse_device(
      R"({"name": "a", "tag_set": "s", "target": {"type": "null", "size": "1GiB"}})", "", test_types());
  ASSERT_TRUE(device) << device.error().text();
  EXPECT_EQ(device->tag_set, "s");
  const auto bad = parse_device(R"({"target": {"type": "null", "size": 1}})", "", test_types());
  ASSERT_FALSE(bad);
  EXPECT_TRUE(bad.error().text().starts_with("target.size: expected a size in bytes from 512"))
      << bad.error().text();
  for (const std::string_view text : {"", "null", "[]", "1", "{", "\"x\""})
    EXPECT_FALSE(parse_device(text, "", test_types())) << text;
}

// Puts text into a file and reads it both by its path and as standard input.
struct BothWays {
  explicit BothWays(std::string_view text) {
    const std::string path = ::testing::TempDir() + fmt::format("ublkd-config-{}.json", ::getpid());
    std::ofstream(path, std::ios::binary) << text;
    if (const auto config = load_config(path, test_types()); !config)
      file = config.error().text().substr(path.size());
    const Fd saved(::dup(STDIN_FILENO));
    const Fd input(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    ::dup2(input.get(), STDIN_FILENO);
    if (const auto config = load_config("-", test_types()); !config) {
      EXPECT_TRUE(config.error().text().starts_with("standard input:"));
      standard_input = config.error().text().substr(std::string_view("standard input").size());
    }
    ::dup2(saved.get(), STDIN_FILENO);
    ::unlink(path.c_str());
  }
  std::string file;
  std::string standard_input;
};

TEST(LoadConfigTest, A70_MarksMeanTheSameFromFileAndStandardInput) {
  using namespace std::string_literals;
  for (const std::string& text : {"{}"s, "\xef\xbb\xbf{}"s, "\xff\xfe{\0}\0"s, "\xef\xbb\xbf"s, ""s,
                                  std::string(json_bytes_max + 1, ' ')}) {
    const BothWays both(text);
    EXPECT_EQ(both.file, both.standard_input);
    EXPECT_EQ(both.file.empty(), text.ends_with("{}"));
  }
}

TEST(LoadConfigTest, WhatCannotBeReadIsNamed) {
  const auto missing = load_config("/nowhere/ublkd.json", test_types());
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::not_found);
  EXPECT_HAS(missing.error().text(), "/nowhere/ublkd.json");
  const auto folder = load_config("/", test_types());
  ASSERT_FALSE(folder);
  EXPECT_HAS(folder.error().text(), "Is a directory");
}

}  // namespace
}  // namespace ublkd
