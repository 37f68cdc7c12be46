// Sizes and durations as text, and the nearest word.
#include "config/quantity.h"

#include "config/text.h"
#include "config_fixture.h"

namespace ublkd {
namespace {

using namespace config_test;

TEST(QuantityTest, A73_EachSuffixHasOneExactMeaning) {
  const std::pair<std::string_view, std::uint64_t> table[] = {
      {"0B", 0},
      {"512B", 512},
      {"1KiB", 1024},
      {"1MiB", 1048576},
      {"3GiB", 3221225472ULL},
      {"1TiB", 1099511627776ULL},
      {"7PiB", 7881299347898368ULL},
      {"18446744073709551615B", ~std::uint64_t{0}},
      {"16383PiB", 16383ULL << 50},
  };
  for (const auto& [text, bytes] : table) {
    const auto size = parse_size_bytes(text);
    ASSERT_TRUE(size) << text;
    EXPECT_EQ(*size, bytes) << text;
  }
}

TEST(QuantityTest, A73_EveryOtherFormIsRefused) {
  for (const std::string_view text :
       {"1M",   "1MB",  "1m",  "1 MiB", "1Mx",   "M",     "",       "1K",    "1G",    "1GB",
        "1gib", "1mib", "1Mi", "1MIB",  " 1MiB", "1MiB ", "1.5GiB", "-1MiB", "+1MiB", "01MiB",
        "1e3B", "0x1B", "1b",  "1MiBB", "1EiB",  "1024",  "MiB",    "1\tMiB"}) {
    const auto size = parse_size_bytes(text);
    ASSERT_FALSE(size) << text;
    EXPECT_HAS(size.error().advice, "expected");
    EXPECT_HAS(size.error().advice, in_quotes(text).substr(0, 3));
  }
}

TEST(QuantityTest, A73_AmbiguousSuffixesComeWithBothExactForms) {
  for (const std::string_view text : {"1M", "1MB", "1m", "1mb", "1mib", "1Mi"})
    EXPECT_HAS(parse_size_bytes(text).error().advice, "write \"1MiB\" (1048576 bytes) or 1000000");
  EXPECT_HAS(parse_size_bytes("10G").error().advice, "write \"10GiB\" (10737418240 bytes) or 10000000000");
  EXPECT_HAS(parse_size_bytes("4096").error().advice, "write 4096 without quotes");
}

TEST(QuantityTest, SizesBeyond64BitsAreRefused) {
  for (const std::string_view text : {"16384PiB", "18446744073709551616B", "99999999999999999999PiB"})
    EXPECT_HAS(parse_size_bytes(text).error().advice, "below 2^64");
}

// Each unit up to the last count that fits, and one more.
TEST(QuantityTest, OverflowIsFoundExactly) {
  for (const QuantityUnit& unit : size_units()) {
    const std::uint64_t count = ~std::uint64_t{0} / unit.factor;
    EXPECT_EQ(*parse_size_bytes(std::to_string(count) + std::string(unit.suffix)), count * unit.factor);
    if (unit.factor > 1) {
      EXPECT_FALSE(parse_size_bytes(std::to_string(count + 1) + std::string(unit.suffix)));
    }
  }
}

TEST(QuantityTest, DurationsAreNanoseconds) {
  EXPECT_EQ(*parse_duration_ns("7ns"), 7U);
  EXPECT_EQ(*parse_duration_ns("10us"), 10'000U);
  EXPECT_EQ(*parse_duration_ns("1ms"), 1'000'000U);
  EXPECT_EQ(*parse_duration_ns("2s"), 2'000'000'000U);
  for (const std::string_view text :
       {"1m", "1h", "1 ms", "1MS", "ms", "", "1.5s", "10", "18446744074s", "1\xc2\xb5s"})
    EXPECT_FALSE(parse_duration_ns(text)) << text;
}

TEST(TextTest, TheNearestWordIsCloseOrNone) {
  const std::string_view known[] = {"size", "path", "create", "offset"};
  EXPECT_EQ(nearest_word("sise", known), "size");
  EXPECT_EQ(nearest_word("creat", known), "create");
  EXPECT_EQ(nearest_word("offest", known), "offset");
  EXPECT_EQ(nearest_word("colour", known), "");
  EXPECT_EQ(nearest_word(std::string(100'000, 'x'), known), "");
}

TEST(TextTest, QuotingGivesOneLineOfValidUtf8) {
  EXPECT_EQ(in_quotes("a\nb\x7f\xff"), "\"a\\x0ab\\x7f\\xff\"");
  EXPECT_EQ(in_quotes("\xc3\xa4"), "\"\xc3\xa4\"");
  EXPECT_LT(in_quotes(std::string(1000, 'x')).size(), 70U);
  for (const std::string_view bad :
       {"\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\x80", "\xf5\x80\x80\x80"}) {
    EXPECT_FALSE(is_utf8(bad));
    EXPECT_TRUE(is_utf8(in_quotes(bad)));
  }
}

}  // namespace
}  // namespace ublkd
