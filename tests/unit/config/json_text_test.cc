// Reading of JSON text: positions, strictness, encodings, bounds.
#include "config/json_text.h"

#include <chrono>

#include "config/text.h"
#include "config_fixture.h"

namespace ublkd {
namespace {

using namespace config_test;

struct ReadText {
  std::optional<JsonNode> node;
  std::string message;
};

ReadText read_text(std::string_view text) {
  Problems problems("f");
  ReadText out{parse_json_text(text, problems), ""};
  if (!problems.empty()) out.message = problems.error().value().text();
  return out;
}

void expect_at(const TextPosition& at, std::uint32_t line, std::uint32_t column) {
  EXPECT_EQ(at.line, line);
  EXPECT_EQ(at.column, column);
}

TEST(JsonTextTest, KeysAndValuesKnowWhereTheyStand) {
  const auto read = read_text("{ \"a\" :\n  [1, \"x\\\"]\",\t-2.5 , {}],\n \"b\":true}");
  ASSERT_TRUE(read.node);
  const auto& members = read.node->children;
  ASSERT_EQ(members.size(), 2U);
  expect_at(read.node->at, 1, 1);
  expect_at(members[0].key_at, 1, 3);
  expect_at(members[0].value.at, 2, 3);
  const auto& items = members[0].value.children;
  ASSERT_EQ(items.size(), 4U);
  expect_at(items[0].value.at, 2, 4);
  expect_at(items[1].value.at, 2, 7);
  EXPECT_EQ(items[1].value.text, "x\"]");
  expect_at(items[2].value.at, 2, 15);
  expect_at(items[3].value.at, 2, 22);
  expect_at(members[1].key_at, 3, 2);
  expect_at(members[1].value.at, 3, 6);
}

TEST(JsonTextTest, AColumnIsACharacterNotAByte) {
  const auto read = read_text("{\"\xc3\xa4\xe2\x82\xac\": 1, \"b\": 2}");
  ASSERT_TRUE(read.node);
  expect_at(read.node->children[1].key_at, 1, 11);
}

// A generated text of known layout: every position must come out as it was written.
TEST(JsonTextTest, PositionsHoldForAnyWhiteSpace) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::string text = "[";
    std::vector<TextPosition> expected;
    std::uint32_t line = 1, column = 2, state = seed;
    for (int i = 0; i < 20; ++i) {
      state = state * 1664525U + 1013904223U;
      const std::string blanks[] = {"", " ", "\n", "\t\n ", "\r\n"};
      for (const char c : blanks[(state >> 20) % 5]) {
        text += c;
        column = c == '\n' ? 1 : column + 1;
        line += c == '\n' ? 1 : 0;
      }
      const std::string tokens[] = {"12", "\"a\\\\\"", "null", "-0.5e3", "[]", "{}"};
      const std::string& token = tokens[(state >> 10) % 6];
      expected.push_back({line, column});
      text += token + ",";
      column += static_cast<std::uint32_t>(token.size()) + 1;
    }
    text += "0]";
    const auto read = read_text(text);
    ASSERT_TRUE(read.node) << text;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(read.node->children[i].value.at.line, expected[i].line) << text << " item " << i;
      EXPECT_EQ(read.node->children[i].value.at.column, expected[i].column) << text << " item " << i;
    }
  }
}

TEST(JsonTextTest, A68_AKeyGivenTwiceIsRefusedWithPathAndBothLines) {
  const auto read = read_text("{\"devices\": [\n {\"size\": 1,\n  \"x\": 2,\n  \"size\": 3}]}");
  EXPECT_EQ(
      read.message,
      "f:4:3: devices[0].size: expected each key once, found it again: first on line 2, again on line 4; "
      "remove one of the two");
}

TEST(JsonTextTest, A68_AnEscapedKeyIsTheSameKey) {
  EXPECT_HAS(read_text("{\"size\": 1, \"s\\u0069ze\": 2}").message, "expected each key once");
}

TEST(JsonTextTest, A68_TheSameKeyInTwoObjectsIsNoDuplicate) {
  EXPECT_EQ(read_text("[{\"a\": {\"a\": 1}}, {\"a\": 2}]").message, "");
}

struct Refused {
  std::string text;
  std::string_view place;
  std::string_view part;
};

void expect_refused(std::initializer_list<Refused> table) {
  for (const Refused& row : table) {
    const auto read = read_text(row.text);
    EXPECT_TRUE(read.message.starts_with("f:" + std::string(row.place) + ":"))
        << row.text << "\n"
        << read.message << "\nshould be at " << row.place;
    EXPECT_TRUE(has(read.message, row.part)) << row.text << "\n" << read.message;
    EXPECT_TRUE(has(read.message, "expected")) << read.message;
  }
}

TEST(JsonTextTest, A69_NumbersThatAreNoJsonAreRefused) {
  expect_refused({{"[NaN]", "1:2", "not a JSON number"},
                  {"[-Infinity]", "1:2", "not a JSON number"},
                  {"[\n Infinity]", "2:2", "not a JSON number"},
                  {"[0x1000]", "1:2", "decimal digits"},
                  {"[1, 012]", "1:5", "leading zeros"},
                  {"[+1]", "1:2", "without '+'"},
                  {"[1.]", "1:2", "1."},
                  {"[.5]", "1:2", ".5"},
                  {"[1e999]", "1:2", "below 2^64"},
                  {"0x10", "1:1", "decimal digits"}});
}

TEST(JsonTextTest, A69_WholeNumbersAreExactAndOthersKeepTheirText) {
  const auto read =
      read_text("[0, -0, 9007199254740993, 18446744073709551615, 18446744073709551616, -1, 4096.0, 1e6]");
  ASSERT_TRUE(read.node);
  const auto& items = read.node->children;
  const std::uint64_t whole[] = {0, 0, 9007199254740993ULL, 18446744073709551615ULL};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(items[i].value.kind, JsonKind::whole);
    EXPECT_EQ(items[i].value.number, whole[i]);
  }
  const std::string other[] = {"18446744073709551616", "-1", "4096.0", "1e6"};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(items[4 + i].value.kind, JsonKind::number);
    EXPECT_EQ(items[4 + i].value.text, other[i]);
  }
}

TEST(JsonTextTest, A70_AUtf8MarkIsSkippedAndTakesNoColumn) {
  const auto read = read_text("\xef\xbb\xbf{\"a\": 1}");
  ASSERT_TRUE(read.node);
  expect_at(read.node->children[0].key_at, 1, 2);
}

TEST(JsonTextTest, A70_OtherEncodingsAreNamed) {
  using namespace std::string_literals;
  expect_refused({{"\xff\xfe{\0}\0"s, "1:1", "UTF-16 (little endian)"},
                  {"\xfe\xff\0{\0}"s, "1:1", "UTF-16 (big endian)"},
                  {"\xff\xfe\0\0{\0\0\0"s, "1:1", "UTF-32 (little endian)"},
                  {"\0\0\xfe\xff"s, "1:1", "UTF-32 (big endian)"},
                  {"{\0}\0"s, "1:2", "UTF-16"},
                  {"{}\n\0{"s, "2:1", "zero byte"}});
}

TEST(JsonTextTest, A70_AMarkOnlyIsAnEmptyText) {
  expect_refused({{"", "1:1", "an empty text"},
                  {" \n\t\r\n", "1:1", "an empty text"},
                  {"\xef\xbb\xbf", "1:1", "an empty text"}});
}

TEST(JsonTextTest, A71_CommentsAndTrailingCommasAreRefusedWithLineAndColumn) {
  expect_refused({{"{\n  // why\n}", "2:3", "comments are not accepted"},
                  {"{ /* why */ }", "1:3", "comments are not accepted"},
                  {"[1, /* open", "1:5", "comments are not accepted"},
                  {"{} // end", "1:4", "comments are not accepted"},
                  {"# shell\n{}", "1:1", "comments are not accepted"},
                  {"[1,\n 2,\n]", "2:3", "trailing commas are not accepted"},
                  {"{\"a\": 1 , }", "1:9", "trailing commas are not accepted"},
                  {"[1,,2]", "1:4", "remove the comma"}});
}

TEST(JsonTextTest, SyntaxErrorsNamePlaceExpectationAndFinding) {
  expect_refused({{"{\"a\" 1}", "1:6", "expected ':' after the key, found \"1\""},
                  {"{\"a\":}", "1:6", "expected a value, found \"}\""},
                  {"{a: 1}", "1:2", "expected a key in double quotes, found \"a\""},
                  {"[1 2]", "1:4", "expected ',' or ']', found \"2\""},
                  {"{\"a\": 1 \"b\": 2}", "1:9", "expected ',' or '}'"},
                  {"{} {}", "1:4", "expected the end of the text"},
                  {"['x']", "1:2", "use double quotes"},
                  {"[nul]", "1:2", "found \"nul\""},
                  {"[true, True]", "1:8", "found \"True\""},
                  {"{\"a\": [1,\n 2", "2:3", "the '[' on line 1 column 7 is not closed"},
                  {"[\"abc", "1:2", "closing double quote"},
                  {"[\"a\nb\"]", "1:4", "expected a valid string"},
                  {"[\"\\x\"]", "1:4", "expected a valid string"},
                  {"[\"\xc3(\"]", "1:4", "UTF-8"},
                  {"[\"\\ud800\"]", "1:9", "surrogate"}});
}

TEST(JsonTextTest, A74_DeepNestingEndsWithACleanErrorInTime) {
  const auto begin = std::chrono::steady_clock::now();
  constexpr std::size_t count = 500'000;
  std::string keys;
  for (std::size_t i = 0; i < count; ++i) keys += "{\"a\":";
  const std::string open(count, '[');
  for (const std::string& text :
       {open, open + std::string(count, ']'), keys, keys + "1" + std::string(count, '}')}) {
    const auto read = read_text(text);
    EXPECT_FALSE(read.node);
    EXPECT_HAS(read.message, "expected at most 32 brackets");
    EXPECT_LT(read.message.size(), 1000U);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

TEST(JsonTextTest, A74_TheDepthLimitIsExact) {
  const auto nested = [](std::size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_TRUE(read_text(nested(json_depth_max)).node);
  EXPECT_FALSE(read_text(nested(json_depth_max + 1)).node);
}

TEST(JsonTextTest, SizeAndNumberOfValuesAreBounded) {
  EXPECT_HAS(read_text(std::string(json_bytes_max + 1, ' ')).message,
             "expected at most 4194304 bytes, found 4194305");
  std::string many = "[0";
  for (std::size_t i = 0; i < json_nodes_max; ++i) many += ",0";
  EXPECT_HAS(read_text(many + "]").message, "expected at most 262144 values");
}

// Cutting or changing a good text anywhere gives a tree or a message, and the message is UTF-8.
TEST(JsonTextTest, DamagedTextGivesATreeOrAMessage) {
  const std::string good = "{\"a\": [1, -2.5e3, \"x\\u00e4\\n\xc3\xa4\", true, null], \"b\": {\"c\": {}}}";
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const char c : {'\0', '"', '{', ']', ',', '\\', '\n', '\xc3', '\xff', '/', '1'}) {
      std::string text = good;
      text[i] = c;
      for (const std::string& tried :
           {text, good.substr(0, i), good.substr(i), good.substr(0, i) + c + good.substr(i)}) {
        const auto read = read_text(tried);
        EXPECT_TRUE(read.node.has_value() || !read.message.empty()) << tried;
        EXPECT_TRUE(is_utf8(read.message)) << tried;
      }
    }
  }
}

}  // namespace
}  // namespace ublkd
