// Options from JSON and from a command line: every key with every kind of value, words, round trip.
#include "config/option_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/option_table.h"
#include "config/write.h"
#include "config_fixture.h"
#include "key_corpus.h"

namespace ublkd {
namespace {

using namespace config_test;

const OptionSpec& option(std::string_view name) {
  for (const OptionSpec& spec : device_options())
    if (spec.name == name) return spec;
  throw std::out_of_range("no such option");
}

TEST(OptionReaderTest, A72_EveryKeyWithEveryKindOfValueIsAcceptedOrRefusedWithKeyPath) {
  std::size_t tried = 0;
  for (const KeyCase& key : every_key()) {
    for (const std::string_view value : kinds_of_values()) {
      const std::string text = key.with(value);
      const auto config = read(text);
      ++tried;
      EXPECT_EQ(config.has_value(), key.accepts(value)) << text << "\n"
                                                        << (config ? "" : config.error().text());
      if (config) continue;
      const std::string message = config.error().text();
      EXPECT_HAS(message, "x.json:1:");
      EXPECT_HAS(message, ": " + key.path);
      EXPECT_HAS(message, "expected ");
      EXPECT_HAS(message, ", found ");
    }
  }
  EXPECT_GT(tried, 6U * 40U);
}

TEST(OptionReaderTest, A72_WrongKindsAtTheTop) {
  for (const std::string_view value : {"null", "true", "1", "\"x\"", "[]"})
    EXPECT_HAS(refusal(value), "x.json:1:1: expected an object in {}, found ");
  for (const std::string_view value : {"null", "true", "1", "\"x\"", "[]"}) {
    EXPECT_HAS(refusal(fmt::format("{{\"devices\": [{}]}}", value)), "devices[0]: expected an object");
    EXPECT_HAS(refusal(fmt::format("{{\"tag_sets\": {{\"s\": {}}}}}", value)),
               "tag_sets.s: expected an object");
  }
}

TEST(OptionReaderTest, ListsAreOfDifferentKnownItems) {
  const auto fault = [](std::string_view ops) {
    return refusal(fmt::format(
        R"({{"devices": [{{"target": {{"type": "fault", "ops": {}, "target": {{"type": "null", "size": 512}}}}}}]}})",
        ops));
  };
  EXPECT_EQ(fault(R"(["read", "write"])"), "");
  EXPECT_HAS(fault(R"(["read", "read"])"), "target.ops[1]: expected");
  EXPECT_HAS(fault(R"(["read", "rite"])"), "did you mean \"write\"?");
  EXPECT_HAS(fault(R"(["read", 1])"), "target.ops[1]: expected one of read, write");
  EXPECT_HAS(fault("[]"), "the list is empty; leave the key out instead");
  EXPECT_HAS(refusal(R"({"tag_sets": {"s": {"cpus": [1024]}}})"),
             "tag_sets.s.cpus[0]: expected a whole number from 0 to 1023");
  EXPECT_HAS(refusal(R"({"tag_sets": {"s": {"cpus": [2, 2]}}})"), "it stands in the list twice");
}

TEST(OptionReaderTest, PathsAreAbsoluteWithoutZeroByte) {
  const auto file = [](std::string_view path) {
    return refusal(fmt::format(R"({{"devices": [{{"target": {{"type": "file", "path": "{}"}}}}]}})", path));
  };
  EXPECT_EQ(file("/a b/\\u00e4"), "");
  EXPECT_HAS(file("a/b"), "write it from / on");
  EXPECT_HAS(file(""), "devices[0].target.path: expected an absolute path");
  EXPECT_HAS(file("/a\\u0000b"), "zero byte");
  EXPECT_HAS(file("/" + std::string(text_bytes_max, 'x')), "at most 4095 bytes");
}

TEST(OptionTextTest, WordsMeanWhatTheJsonValueWithoutQuotesMeans) {
  const auto number = [](std::string_view name, std::string_view text) {
    const auto value = parse_option_text(option(name), text, test_types());
    return value ? std::get<std::uint64_t>(*value) : 0;
  };
  EXPECT_EQ(number("depth", "64"), 64U);
  EXPECT_EQ(number("max_io_size", "64KiB"), 65536U);
  EXPECT_EQ(number("max_io_size", "65536"), 65536U);
  EXPECT_TRUE(std::get<bool>(*parse_option_text(option("read_only"), "true", test_types())));
  EXPECT_EQ(std::get<std::string>(*parse_option_text(option("scheduler"), "bfq", test_types())), "bfq");
  const auto set_options = tag_set_options();
  const auto cpus_option = std::ranges::find(set_options, "cpus", &OptionSpec::name);
  ASSERT_NE(cpus_option, set_options.end());
  const auto cpus = parse_option_text(*cpus_option, "0,2,5", test_types());
  ASSERT_TRUE(cpus) << cpus.error().text();
  EXPECT_EQ(std::get<std::vector<std::uint64_t>>(*cpus), (std::vector<std::uint64_t>{0, 2, 5}));
}

TEST(OptionTextTest, A73_RefusesWhatJsonRefuses) {
  for (const std::string_view text :
       {"1M", "1MB", "1m", "1 MiB", "1Mx", "M", "", "-1", "4096.0", "1e6", "0x1000", "0", "6144", "04096"}) {
    const auto value = parse_option_text(option("max_io_size"), text, test_types());
    ASSERT_FALSE(value) << text;
    EXPECT_TRUE(value.error().text().starts_with("max_io_size: expected")) << value.error().text();
  }
  for (const std::string_view text : {"yes", "1", "TRUE", ""})
    EXPECT_FALSE(parse_option_text(option("read_only"), text, test_types())) << text;
  for (const std::string_view text : {"", ",", "1,", ",1", "1,1", "1;2", "a"})
    EXPECT_FALSE(parse_option_text(tag_set_options()[3], text, test_types())) << text;
}

TEST(OptionTextTest, ATargetIsItsJsonText) {
  const auto value = parse_option_text(option("target"), R"({"type": "null", "size": "1GiB"})", test_types());
  ASSERT_TRUE(value) << value.error().text();
  EXPECT_EQ(std::get<std::shared_ptr<const TargetSpec>>(*value)->options.number("size"), 1U << 30);
  for (const std::string_view text :
       {"null", "{", R"({"type": "null"})", R"({"type": "null", "size": 512, "size": 512})"})
    EXPECT_FALSE(parse_option_text(option("target"), text, test_types())) << text;
}

TEST(TargetWordsTest, WrappersAreReachedByDots) {
  const std::string words[] = {"time=10us", "target.type=fault", "target.ops=read,write",
                               "target.target.type=null", "target.target.size=1GiB"};
  const auto spec = parse_target_words("delay", words, test_types());
  ASSERT_TRUE(spec) << spec.error().text();
  EXPECT_EQ(spec->options.number("time"), 10'000U);
  const auto fault = spec->options.target("target");
  EXPECT_EQ(fault->options.words("ops"), (std::vector<std::string>{"read", "write"}));
  EXPECT_EQ(fault->options.target("target")->options.number("size"), 1U << 30);
}

TEST(TargetWordsTest, BadWordsAreRefused) {
  const std::string deep = [] {
    std::string out;
    for (int i = 0; i < 10'000; ++i) out += "target.";
    return out + "size=1";
  }();
  for (const std::string& word :
       {std::string("size"), std::string("=1"), std::string("size=512"), std::string("siez=1"),
        std::string("a..b=1"), std::string(".=1"), std::string("size.x=1"), deep, std::string("\xff=1")}) {
    const std::string words[] = {"size=1GiB", word};
    const auto spec = parse_target_words("null", words, test_types());
    ASSERT_FALSE(spec) << word;
    EXPECT_HAS(spec.error().text(), "expected");
  }
  EXPECT_HAS(parse_target_words("nul", {}, test_types()).error().text(), "did you mean \"null\"?");
  const std::string path[] = {"path=/a\xff"};
  EXPECT_HAS(parse_target_words("file", path, test_types()).error().text(), "not valid UTF-8");
}

TEST(WriteTest, SizesAreBytesAndDurationsNanoseconds) {
  const std::string words[] = {"time=10us", "target.type=null", "target.size=1GiB"};
  const auto spec = parse_target_words("delay", words, test_types());
  ASSERT_TRUE(spec);
  EXPECT_EQ(to_json(*spec).dump(),
            R"({"target":{"accept_max":0,"one_by_one":false,"size":1073741824,"type":"null"},)"
            R"("time":10000,"type":"delay"})");
}

// What is written reads back as an equal value, for each accepted value of each key.
TEST(WriteTest, WhatIsWrittenReadsBackEqual) {
  for (const KeyCase& key : every_key()) {
    for (const std::string& value : key.good) {
      const auto config = read(key.with(value));
      ASSERT_TRUE(config) << key.with(value) << "\n" << config.error().text();
      for (const DeviceConfig& device : config->devices) {
        const auto again = parse_device(to_json(device).dump(), "", test_types());
        ASSERT_TRUE(again) << again.error().text();
        EXPECT_EQ(to_json(*again), to_json(device));
        EXPECT_EQ(to_json(again->target), to_json(device.target));
        EXPECT_EQ(again->id, device.id);
        EXPECT_EQ(again->depth, device.depth);
      }
    }
  }
}

}  // namespace
}  // namespace ublkd
