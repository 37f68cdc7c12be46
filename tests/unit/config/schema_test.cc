// The schema: committed as generated, and of one opinion with the reader, by an independent checker.
#include "config/schema.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "config_fixture.h"
#include "key_corpus.h"

namespace ublkd {
namespace {

using namespace config_test;

std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// A listed exception: the schema knows the form of "1MiB", not its range.
bool is_out_of_range_quantity(const KeyCase& key, std::string_view value) {
  return (value == "\"1MiB\"" || value == "\"1ms\"") && has(refusal(key.with(value)), "; that is ");
}

class SchemaTest : public ::testing::Test {
 protected:
  SchemaTest() : json_(nlohmann::json::parse(config_schema(test_types()))) {
    valijson::SchemaParser parser(valijson::SchemaParser::kDraft7);
    parser.populateSchema(valijson::adapters::NlohmannJsonAdapter(json_), schema_);
  }
  bool accepts(const std::string& text) {
    const auto document = nlohmann::json::parse(text, nullptr, false);
    if (document.is_discarded()) return false;
    valijson::Validator validator(valijson::Validator::kStrongTypes);
    return validator.validate(schema_, valijson::adapters::NlohmannJsonAdapter(document), nullptr);
  }
  void expect_same_verdict(const std::string& text) {
    const std::string message = refusal(text);
    EXPECT_EQ(accepts(text), message.empty()) << text << "\nreader: " << message;
  }
  nlohmann::json json_;
  valijson::Schema schema_;
};

TEST_F(SchemaTest, TheCommittedFileIsTheGeneratedOne) {
  EXPECT_EQ(text_of(config_folder() / "ublkd.schema.json"), config_schema(test_types()));
}

TEST_F(SchemaTest, EveryExampleIsGoodForReaderAndSchema) {
  std::size_t examples = 0;
  for (const auto& entry : std::filesystem::directory_iterator(config_folder())) {
    const auto& path = entry.path();
    if (path.extension() != ".json" || path.filename() == "ublkd.schema.json") continue;
    ++examples;
    const auto config = load_config(path.string(), test_types());
    EXPECT_TRUE(config) << config.error().text();
    EXPECT_TRUE(accepts(text_of(path))) << path;
  }
  EXPECT_GE(examples, 5U);
}

TEST_F(SchemaTest, OneOpinionOnEveryKeyWithEveryKindOfValue) {
  for (const KeyCase& key : every_key()) {
    for (const std::string_view value : kinds_of_values()) expect_same_verdict(key.with(value));
    for (const std::string& value : key.good) expect_same_verdict(key.with(value));
    for (const std::string_view value :
         {"-1",       "0",      "-0",       "511",     "513",  "4097",   "65536",
          "4096.0",   "4096.5", "1e6",      "[0, 0]",  "[1]",  "[true]", "[\"x\"]",
          "\"1MiB\"", "\"1M\"", "\"4096\"", "\"1ms\"", "\"\"", "\"/\"",  "[\"read\", \"read\"]"})
      if (!key.path.ends_with("tag_set") && !is_out_of_range_quantity(key, value))
        expect_same_verdict(key.with(value));
  }
}

TEST_F(SchemaTest, OneOpinionOnStructure) {
  for (
      const std::string_view text :
      {"{}",
       "[]",
       "null",
       "1",
       R"({"devices": []})",
       R"({"device": []})",
       R"({"devices": {}})",
       R"({"devices": [{}]})",
       R"({"devices": [null]})",
       R"({"tag_sets": {"a b": {}}})",
       R"({"tag_sets": {"7": {}}})",
       R"({"tag_sets": {"ublkb0": {}}})",
       R"({"tag_sets": {"s": []}})",
       R"({"tag_sets": {"s": {"depht": 1}}})",
       R"({"devices": [{"target": {}}]})",
       R"({"devices": [{"target": {"type": "null"}}]})",
       R"({"devices": [{"target": {"type": "other", "size": 512}}]})",
       R"({"devices": [{"target": {"type": "null", "size": 512, "path": "/x"}}]})",
       R"({"devices": [{"target": {"type": "file"}}]})",
       R"({"devices": [{"target": {"type": "delay", "target": {"type": "null"}}}]})",
       R"({"devices": [{
            "target": {"type": "delay", "target": {"type": "fault", "target": {"type": "null", "size": 512}}}}]})",
       R"({"devices": [{
            "target": {"type": "delay", "target": {"type": "fault", "target": {"type": "null", "size": 5}}}}]})",
       R"({"tag_sets": {"s": {}}, "devices": [{"tag_set": "s", "queues": 1,
            "target": {"type": "null", "size": 512}}]})",
       R"({"tag_sets": {"s": {}}, "devices": [{"tag_set": "s", "target": {"type": "null", "size": 512}}]})",
       "{} // comment",
       "{\"devices\": [],}",
       "",
       "{"})
    expect_same_verdict(std::string(text));
}

// What a schema cannot say, as its header lists it: accepted there, refused by the reader.
TEST_F(SchemaTest, TheExceptionsAreTheListedOnes) {
  for (const std::string& text :
       {std::string(R"({"devices": [], "devices": []})"), one_device(R"("tag_set": "missing")"),
        one_device("", R"("size": "1B")"), one_device("", R"("size": "16384PiB")"),
        std::string(R"({"devices": [{"target": {"type": "file", "path": "/a\u0000b"}}]})")}) {
    EXPECT_TRUE(accepts(text)) << text;
    EXPECT_NE(refusal(text), "") << text;
  }
}

}  // namespace
}  // namespace ublkd
