#include "api/client.h"

#include "api_fixture.h"

namespace ublkd::api {
namespace {

constexpr std::chrono::milliseconds long_time{20'000};

TEST_F(ApiTest, ClientGetsResultsAndErrors) {
  ASSERT_TRUE(start());
  auto client = ApiClient::connect(path);
  ASSERT_TRUE(client);
  const auto pong = client->call("ping", nlohmann::json::object(), long_time);
  ASSERT_TRUE(pong);
  EXPECT_EQ(*pong, "pong");
  const auto busy = client->call("fail", nlohmann::json::object(), long_time);
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().kind, ErrorKind::busy);
  EXPECT_EQ(busy.error().text(), "delete ublkb0: it is mounted");
}

TEST_F(ApiTest, ClientTakesReplyOfSeveralMebibytes) {
  ASSERT_TRUE(start());
  auto client = ApiClient::connect(path);
  ASSERT_TRUE(client);
  const std::string big(1'000'000, 'x');
  const auto echo = client->call("echo", {{"a", big}}, long_time);
  ASSERT_TRUE(echo) << echo.error().text();
  EXPECT_EQ((*echo)["a"], big);
}

TEST_F(ApiTest, ClientTurnedAwayLearnsWhy) {
  ApiLimits limits;
  limits.connections_max = 0;
  ASSERT_TRUE(start(limits));
  auto client = ApiClient::connect(path);
  ASSERT_TRUE(client);
  const auto reply = client->call("ping", nlohmann::json::object(), long_time);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().kind, ErrorKind::limit);
}

TEST_F(ApiTest, ClientGivesUpAfterItsTimeout) {
  ASSERT_TRUE(start());
  auto client = ApiClient::connect(path);
  ASSERT_TRUE(client);
  const auto reply = client->call("hold", nlohmann::json::object(), std::chrono::milliseconds(20));
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().kind, ErrorKind::timeout);
  EXPECT_TRUE(ApiClient::connect(path)->call("release", nlohmann::json::object(), long_time));
}

TEST(ApiClientTest, NoDaemonIsNotFoundWithTheWayToStartOne) {
  const TempDir dir;
  const auto client = ApiClient::connect(dir / "ublkd.sock");
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().kind, ErrorKind::not_found);
  EXPECT_EQ(client.error().text(),
            "no ublkd answers on " + (dir / "ublkd.sock") + ": start one: systemctl start ublkd, or ublkd &");
}

}  // namespace
}  // namespace ublkd::api
