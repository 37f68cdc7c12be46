// add, del, list and features against a server with prepared answers.
#include "api/server.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <boost/asio/post.hpp>
#include <filesystem>
#include <thread>

#include "all_types.h"
#include "cli/run.h"

namespace ublkd::cli {
namespace {

using nlohmann::json;

class PreparedService : public api::Service {
 public:
  boost::asio::awaitable<Result<json>> call(std::string verb, json args) override {
    asked_verb = verb;
    asked_args = args;
    co_return answer;
  }
  Result<json> answer = json::object();
  std::string asked_verb;
  json asked_args;
};

class VerbsTest : public ::testing::Test {
 protected:
  VerbsTest() {
    char name[] = "/tmp/ublkd-verbs-XXXXXX";
    dir = ::mkdtemp(name);
    server = std::make_unique<api::ApiServer>(io, dir + "/s", service);
    EXPECT_TRUE(server->listen());
  }
  ~VerbsTest() override { std::filesystem::remove_all(dir); }

  // Runs one command line while the server answers, then ends the server.
  Printed run_words(std::vector<std::string> words) {
    std::thread thread([this] { io.run(); });
    const Printed p = run({std::move(words), "/work", dir + "/s", "1.2.3"}, all_types());
    boost::asio::post(io, [this] { server->close(); });
    thread.join();
    return p;
  }

  std::string dir;
  boost::asio::io_context io;
  PreparedService service;
  std::unique_ptr<api::ApiServer> server;
};

TEST_F(VerbsTest, AddPrintsThePathAloneAndWhatWasFilledInAside) {
  service.answer = json{{"path", "/dev/ublkb0"}, {"id", 0}};
  const Printed p = run_words({"add", "-t", "null", "-n", "0"});
  EXPECT_EQ(p.code, ExitCode::done);
  EXPECT_EQ(p.out, "/dev/ublkb0\n");
  EXPECT_EQ(p.err, "ublkctl: no --size given: 250GiB\n");
  EXPECT_EQ(service.asked_verb, "add");
  EXPECT_EQ(service.asked_args["device"]["id"], 0);
}

TEST_F(VerbsTest, AddVerboseEndsWithThePath) {
  service.answer = json{{"path", "/dev/ublkb0"}, {"id", 0}, {"size_bytes", 1024}};
  const Printed p = run_words({"add", "null", "-v", "--size", "1GiB"});
  EXPECT_NE(p.out.find("1 KiB (1024 bytes)"), std::string::npos);
  EXPECT_TRUE(p.out.ends_with("\n/dev/ublkb0\n"));
}

TEST_F(VerbsTest, AddInJsonIsTheDevice) {
  service.answer = json{{"path", "/dev/ublkb0"}, {"id", 0}};
  const Printed p = run_words({"-o", "json", "add", "null"});
  EXPECT_EQ(json::parse(p.out), *service.answer);
  EXPECT_EQ(p.err, "");
}

TEST_F(VerbsTest, ErrorOfTheDaemonIsStatusOneWithItsMessage) {
  service.answer = fail(ErrorKind::busy, "delete", "/dev/ublkb0", "it is mounted on /mnt");
  const Printed p = run_words({"del", "0"});
  EXPECT_EQ(p.code, ExitCode::failed);
  EXPECT_EQ(p.out, "");
  EXPECT_EQ(p.err, "ublkctl: delete /dev/ublkb0: it is mounted on /mnt\n");
}

TEST_F(VerbsTest, DelOfAnAbsentDeviceIsDoneWithOneLine) {
  service.answer = json{{"deleted", json::array()}, {"absent", {"7"}}};
  const Printed p = run_words({"del", "-n", "7"});
  EXPECT_EQ(p.code, ExitCode::done);
  EXPECT_EQ(p.out, "");
  EXPECT_EQ(p.err, "ublkctl: not there, nothing to delete: 7\n");
}

TEST_F(VerbsTest, ListWithoutDevicesLeavesStandardOutputEmpty) {
  service.answer = json{{"devices", json::array()}};
  const Printed p = run_words({"list"});
  EXPECT_EQ(p.code, ExitCode::done);
  EXPECT_EQ(p.out, "");
  EXPECT_EQ(p.err, "ublkctl: no devices\n");
}

TEST_F(VerbsTest, TagsOfNoSetLeaveStandardOutputEmpty) {
  service.answer = json{{"tag_sets", json::array()}};
  const Printed tags = run_words({"tags", "disk"});
  EXPECT_EQ(tags.code, ExitCode::done);
  EXPECT_EQ(tags.out, "");
  EXPECT_EQ(tags.err, "ublkctl: no tag sets\n");
  EXPECT_EQ(service.asked_verb, "tags");
  EXPECT_EQ(service.asked_args["tag_set"], "disk");
}

TEST_F(VerbsTest, TunePrintsWhatIsInForce) {
  service.answer = json{{"device", "a"}, {"weight", 3}};
  const Printed p = run_words({"tune", "device", "a", "--weight", "3"});
  EXPECT_EQ(p.code, ExitCode::done);
  EXPECT_EQ(p.out, "device a: weight 3\n");
  EXPECT_EQ(service.asked_args["change"]["weight"], 3);
}

TEST_F(VerbsTest, AWatchEndsWithTheDaemonsError) {
  service.answer = fail(ErrorKind::not_found, "tag set", "x", "there are none");
  const Printed p = run_words({"tags", "x", "--watch"});
  EXPECT_EQ(p.code, ExitCode::failed);
  EXPECT_EQ(p.err, "ublkctl: tag set x: there are none\n");
}

TEST_F(VerbsTest, FeaturesComeFromTheDaemonWhenThereIsOne) {
  service.answer =
      json{{"kernel", "7.3.4"},
           {"mask", "0x80"},
           {"features", {{{"name", "USER_COPY"}, {"bit", 7}, {"kernel", true}, {"used", false}}}}};
  const Printed p = run_words({"features"});
  EXPECT_EQ(p.code, ExitCode::done);
  EXPECT_NE(p.out.find("USER_COPY"), std::string::npos);
}

}  // namespace
}  // namespace ublkd::cli
