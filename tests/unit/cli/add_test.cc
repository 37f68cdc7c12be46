// Command lines of add -> device object, or the error that says what to write.
#include <gtest/gtest.h>

#include <sstream>

#include "all_types.h"
#include "cli/command.h"

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

struct Translated {
  const char* words;
  const char* device;  // without what the option tables add
};

// Whether every member of wanted is in got, with the same value; in target too.
bool contains(const nlohmann::json& got, const nlohmann::json& wanted) {
  for (const auto& item : wanted.items()) {
    if (!got.contains(item.key())) return false;
    const bool same =
        item.value().is_object() ? contains(got[item.key()], item.value()) : got[item.key()] == item.value();
    if (!same) return false;
  }
  return true;
}

class AddTranslation : public ::testing::TestWithParam<Translated> {};

TEST_P(AddTranslation, GivesTheDevice) {
  const auto command = parse(GetParam().words);
  ASSERT_TRUE(command) << command.error().text();
  EXPECT_EQ(command->verb, Verb::add);
  const nlohmann::json device = command->args["device"];
  EXPECT_TRUE(contains(device, nlohmann::json::parse(GetParam().device))) << device;
}

constexpr Translated translated[] = {
    {"add -t null -n 0 -q 2 -d 128",
     R"({"id":0,"queues":2,"depth":128,"target":{"type":"null","size":268435456000}})"},
    {"add null -n 0 -q 2 -d 128", R"({"id":0,"queues":2,"depth":128,"target":{"type":"null"}})"},
    {"add null --number 3 --queue 4 --depth 64", R"({"id":3,"queues":4,"depth":64})"},
    {"add --type null --queues 4", R"({"queues":4})"},
    {"add -t null --size 1GiB", R"({"target":{"type":"null","size":1073741824}})"},
    {"add -t null -s 4096", R"({"target":{"size":4096}})"},
    {"add -t null -O size=1MiB -O accept_max=3", R"({"target":{"size":1048576,"accept_max":3}})"},
    {"add -t file -f /x/disk.img", R"({"target":{"type":"file","path":"/x/disk.img"}})"},
    {"add -t loop -f /x/disk.img", R"({"target":{"type":"file","path":"/x/disk.img"}})"},
    {"add loop -f disk.img", R"({"target":{"type":"file","path":"/work/disk.img"}})"},
    {"add -t file sub/disk.img", R"({"target":{"type":"file","path":"/work/sub/disk.img"}})"},
    {"add file disk.img", R"({"target":{"type":"file","path":"/work/disk.img"}})"},
    {"add file -f /x --size 1GiB -O create=sparse", R"({"target":{"size":1073741824,"create":"sparse"}})"},
    {"add -t loop -f /x --buffered_io", R"({"target":{"io":"buffered"}})"},
    {"add loop -f /x --buffered-io", R"({"target":{"io":"buffered"}})"},
    {"add file -f /x -O offset=1MiB", R"({"target":{"offset":1048576}})"},
    {"add null --name data --tag-set shared --weight 4", R"({"name":"data","tag_set":"shared","weight":4})"},
    {"add null --read-only", R"({"read_only":true})"},
    {"add null --logical-block-size 4096 --max-io-size 128KiB --scheduler mq-deadline",
     R"({"logical_block_size":4096,"max_io_size":131072,"scheduler":"mq-deadline"})"},
    {"add null --io-buf-size 1MiB", R"({"max_io_size":1048576})"},
    {"add null --max_io_buf_bytes 524288", R"({"max_io_size":524288})"},
    {"add null --max-io-size=64KiB --size=1GiB", R"({"max_io_size":65536})"},
    {"add null -r 0 -i 0 -e 0 -g 0", R"({"target":{"type":"null"}})"},
    {"add delay -O time=1ms -O target.type=null -O target.size=1GiB",
     R"({"target":{"type":"delay","time":1000000,"target":{"type":"null","size":1073741824}}})"},
    {R"(add delay -O target={"type":"null","size":4096})", R"({"target":{"target":{"size":4096}}})"},
};
INSTANTIATE_TEST_SUITE_P(Table, AddTranslation, ::testing::ValuesIn(translated));

struct Refused {
  const char* words;
  const char* says;  // part of the message
};

class AddRefusal : public ::testing::TestWithParam<Refused> {};

TEST_P(AddRefusal, SaysWhatToWrite) {
  const auto command = parse(GetParam().words);
  ASSERT_FALSE(command);
  EXPECT_EQ(command.error().kind, ErrorKind::invalid);
  EXPECT_NE(command.error().text().find(GetParam().says), std::string::npos) << command.error().text();
  EXPECT_EQ(command.error().text().find('\n'), std::string::npos) << command.error().text();
}

constexpr Refused refused[] = {
    {"add", "give a target"},
    {"add nul", "null"},
    {"add null -q 0", "queues"},
    {"add null -q 1000", "queues"},
    {"add null -q 4294967298", "queues"},  // must not become 2
    {"add null -q two", "queues"},
    {"add null -d 0x80", "depth"},
    {"add null -d 5000", "depth"},
    {"add null -n -2", "id"},
    {"add null -n 1x", "id"},
    {"add null --size 1GB", "GiB"},
    {"add null --size -5", "size"},
    {"add null --size 1GiB -O size=2GiB", "size"},
    {"add null -f /x", "path"},
    {"add file", "path"},
    {"add file a b", "one too many"},
    {"add file a -f b", "one too many"},
    {"add null extra", "one too many"},
    {"add -t null null", "one too many"},
    {"add null -O colour=red", "colour"},
    {"add null -O accept_max", "key=value"},
    {"add null --tag-set shared -q 2", "queues"},
    {"add null --name 7", "name"},
    {"add null --scheduler cfq", "scheduler"},
    {"add null -z", "zero copy"},
    {"add null --zerocopy", "zero copy"},
    {"add null --auto_zc", "zero copy"},
    {"add null -u", "uring_comp"},
    {"add null -b", "--max-io-size"},
    {"add null -b 512KiB", "--max-io-size"},
    {"add null -g", "leave it out"},
    {"add null -g 1", "leave it out"},
    {"add null -r", "recovery"},
    {"add null -r 1", "recovery"},
    {"add null --user_recovery 1", "recovery"},
    {"add null -i 1", "recovery"},
    {"add null -e 1", "recovery"},
    {"add null -p", "root"},
    {"add null --unprivileged", "root"},
    {"add null --foreground", "foreground"},
    {"add loop -f /x --offset 8", "-O offset=BYTES"},
    {"add loop -f /x -o 8", "-O offset=BYTES"},
    {"add null --no-such-flag", "--no-such-flag"},
};
INSTANTIATE_TEST_SUITE_P(Table, AddRefusal, ::testing::ValuesIn(refused));

TEST(AddTest, NumberMinusOneLeavesTheChoiceToTheKernel) {
  for (const char* words : {"add null -n -1", "add null --number -1", "add null --number=-1", "add null"}) {
    const auto command = parse(words);
    ASSERT_TRUE(command) << words << ": " << command.error().text();
    EXPECT_FALSE(command->args["device"].contains("id")) << words;
  }
}

TEST(AddTest, NullSizeFilledInIsSaid) {
  const auto filled = parse("add null");
  ASSERT_TRUE(filled);
  ASSERT_EQ(filled->notes.size(), 1U);
  EXPECT_NE(filled->notes.front().find("250GiB"), std::string::npos);
  EXPECT_TRUE(parse("add null --size 1GiB")->notes.empty());
}

}  // namespace
}  // namespace ublkd::cli
