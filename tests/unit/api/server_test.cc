#include "api_fixture.h"

#include <sys/stat.h>

#include <vector>

namespace ublkd::api {
namespace {

constexpr const char* ping = "{\"verb\":\"ping\"}\n";

std::string error_kind(const nlohmann::json& reply) {
  if (!reply.is_object() || reply.value("ok", true)) return "no error: " + reply.dump();
  return reply["error"]["kind"];
}

TEST_F(ApiTest, AnswersOneLinePerRequestInOrder) {
  ASSERT_TRUE(start());
  RawClient c(path);
  c.send("{\"verb\":\"ping\"}\n{\"verb\":\"echo\",\"args\":{\"a\":1}}\r\n");
  EXPECT_EQ(c.line(), "{\"ok\":true,\"result\":\"pong\"}");
  EXPECT_EQ(c.line(), "{\"ok\":true,\"result\":{\"a\":1}}");
}

TEST_F(ApiTest, ServiceErrorCarriesKindAndMessage) {
  ASSERT_TRUE(start());
  RawClient c(path);
  c.send("{\"verb\":\"fail\"}\n");
  const auto reply = c.reply();
  EXPECT_EQ(error_kind(reply), "busy");
  EXPECT_EQ(reply["error"]["message"], "delete ublkb0: it is mounted");
}

TEST_F(ApiTest, ExceptionOfTheServiceIsAnInternalErrorAndTheServerLivesOn) {
  ASSERT_TRUE(start());
  RawClient c(path);
  c.send("{\"verb\":\"throw\"}\n");
  EXPECT_EQ(error_kind(c.reply()), "internal");
  c.send(ping);
  EXPECT_EQ(c.reply()["result"], "pong");
}

TEST_F(ApiTest, GarbageLinesAreAnsweredAndTheConnectionGoesOn) {
  ASSERT_TRUE(start());
  RawClient c(path);
  const std::vector<std::string> garbage = {"",
                                            "hello",
                                            "{",
                                            "[]",
                                            "42",
                                            "null",
                                            "{}",
                                            "{\"verb\":1}",
                                            "{\"verb\":\"ping\",\"args\":[]}",
                                            "{\"verb\":\"ping\",\"extra\":1}",
                                            std::string("\0\0", 2),
                                            "\xff\xfe{}",
                                            "{\"verb\":\"\xff\"}"};
  for (const auto& line : garbage) {
    c.send(line + "\n");
    EXPECT_EQ(error_kind(c.reply()), "invalid") << line;
  }
  c.send(ping);
  EXPECT_EQ(c.reply()["result"], "pong");
}

TEST_F(ApiTest, DeeplyNestedLineIsRefused) {
  ASSERT_TRUE(start());
  RawClient c(path);
  const std::size_t depth = 200'000;
  c.send("{\"verb\":\"echo\",\"args\":{\"a\":" + std::string(depth, '[') + std::string(depth, ']') + "}}\n");
  EXPECT_EQ(error_kind(c.reply()), "limit");
}

TEST_F(ApiTest, LineOfOneMebibyteIsAnswered) {
  ASSERT_TRUE(start());
  RawClient c(path);
  const std::string head = "{\"verb\":\"echo\",\"args\":{\"a\":\"";
  const std::string tail = "\"}}\n";
  c.send(head + std::string(line_bytes_max - head.size() - tail.size(), 'x') + tail);
  EXPECT_EQ(c.reply()["result"]["a"].get<std::string>().size(), line_bytes_max - head.size() - tail.size());
}

TEST_F(ApiTest, HugeLineIsAnsweredWithLimitAndTheConnectionEnds) {
  ASSERT_TRUE(start());
  RawClient c(path);
  c.send(std::string(line_bytes_max + 1, 'x'));
  EXPECT_EQ(error_kind(c.reply()), "limit");
  EXPECT_TRUE(c.ended());
  RawClient next(path);
  next.send(ping);
  EXPECT_EQ(next.reply()["result"], "pong");
}

TEST_F(ApiTest, HalfALineThenHangUpHurtsNobody) {
  ASSERT_TRUE(start());
  {
    RawClient c(path);
    c.send("{\"verb\":\"pi");
  }
  RawClient next(path);
  next.send(ping);
  EXPECT_EQ(next.reply()["result"], "pong");
}

TEST_F(ApiTest, ClientThatHangsUpDuringItsVerbHurtsNobody) {
  ASSERT_TRUE(start());
  RawClient gone(path);
  gone.send("{\"verb\":\"hold\"}\n");
  RawClient next(path);
  next.send(ping);
  EXPECT_EQ(next.reply()["result"], "pong");
  gone.hang_up();
  next.send("{\"verb\":\"release\"}\n");
  EXPECT_EQ(next.reply()["result"], "released");
  next.send(ping);
  EXPECT_EQ(next.reply()["result"], "pong");
}

TEST_F(ApiTest, SlowVerbDoesNotHoldUpOtherClients) {
  ASSERT_TRUE(start());
  RawClient slow(path);
  slow.send("{\"verb\":\"hold\"}\n");
  RawClient fast(path);
  for (int i = 0; i < 100; ++i) {
    fast.send(ping);
    ASSERT_EQ(fast.reply()["result"], "pong");
  }
  fast.send("{\"verb\":\"release\"}\n");
  EXPECT_EQ(fast.reply()["result"], "released");
  EXPECT_EQ(slow.reply()["result"], "held");
}

TEST_F(ApiTest, ManyClientsAreServedUpToTheLimitAndTheNextIsTold) {
  ASSERT_TRUE(start());
  std::vector<std::unique_ptr<RawClient>> clients;
  for (std::size_t i = 0; i < ApiLimits{}.connections_max; ++i) {
    clients.push_back(std::make_unique<RawClient>(path));
    clients.back()->send(ping);
    ASSERT_EQ(clients.back()->reply()["result"], "pong");
  }
  RawClient extra(path);
  EXPECT_EQ(error_kind(extra.reply()), "limit");
  EXPECT_TRUE(extra.ended());
  for (auto& c : clients) {
    c->send(ping);
    ASSERT_EQ(c->reply()["result"], "pong");
  }
}

TEST_F(ApiTest, SilentClientIsClosedAfterItsTime) {
  ApiLimits limits;
  limits.client_time_max = std::chrono::milliseconds(20);
  ASSERT_TRUE(start(limits));
  RawClient c(path);
  EXPECT_TRUE(c.ended());
}

TEST_F(ApiTest, ClientThatReadsNothingIsClosedAfterItsTime) {
  ApiLimits limits;
  limits.client_time_max = std::chrono::milliseconds(50);
  ASSERT_TRUE(start(limits));
  RawClient c(path);
  const std::string request = "{\"verb\":\"echo\",\"args\":{\"a\":\"" + std::string(500'000, 'x') + "\"}}\n";
  for (int i = 0; i < 4; ++i) c.send(request);
  int replies = 0;
  while (!c.ended()) ++replies;
  EXPECT_LT(replies, 4);
}

TEST_F(ApiTest, TimeOfAVerbIsNotTheClients) {
  ApiLimits limits;
  limits.client_time_max = std::chrono::milliseconds(300);
  ASSERT_TRUE(start(limits));
  RawClient slow(path);
  slow.send("{\"verb\":\"hold\"}\n");
  RawClient silent(path);
  EXPECT_TRUE(silent.ended());  // its time has passed
  boost::asio::post(io, [this] { service.release(); });
  EXPECT_EQ(slow.reply()["result"], "held");
}

TEST_F(ApiTest, SocketIsForTheOwnerOnlyAndGoesOnClose) {
  ASSERT_TRUE(start());
  struct stat st {};
  ASSERT_EQ(::stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, socket_mode);
  stop();
  EXPECT_NE(::stat(path.c_str(), &st), 0);
}

TEST_F(ApiTest, CloseEndsAllConnections) {
  ASSERT_TRUE(start());
  RawClient idle(path);
  RawClient half(path);
  half.send("{\"verb\"");
  RawClient held(path);
  held.send("{\"verb\":\"hold\"}\n");
  RawClient probe(path);
  probe.send(ping);
  EXPECT_EQ(probe.reply()["result"], "pong");
  boost::asio::post(io, [this] { server->close(); });
  EXPECT_TRUE(idle.ended());
  EXPECT_TRUE(half.ended());
  EXPECT_TRUE(held.ended());
  EXPECT_TRUE(probe.ended());
  EXPECT_FALSE(RawClient(path).connected());
  io.stop();  // the held verb never ends by itself
}

TEST_F(ApiTest, SocketOfADeadDaemonIsReplaced) {
  {
    auto address = unix_address(path);
    const Fd dead(::socket(AF_UNIX, SOCK_STREAM, 0));
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address), 0);
  }
  ASSERT_TRUE(start());
  RawClient c(path);
  c.send(ping);
  EXPECT_EQ(c.reply()["result"], "pong");
}

TEST_F(ApiTest, LiveSocketIsRefusedAndLeftAlone) {
  ASSERT_TRUE(start());
  {
    boost::asio::io_context other_io;
    ApiServer other(other_io, path, service);
    const auto second = other.listen();
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().kind, ErrorKind::busy);
  }
  RawClient c(path);
  c.send(ping);
  EXPECT_EQ(c.reply()["result"], "pong");
}

TEST_F(ApiTest, FileAtTheSocketsPlaceIsRefusedAndKept) {
  std::filesystem::create_directory(path);
  const auto listening = start();
  ASSERT_FALSE(listening);
  EXPECT_EQ(listening.error().kind, ErrorKind::exists);
  EXPECT_TRUE(std::filesystem::is_directory(path));
}

TEST_F(ApiTest, PathThatDoesNotFitIsRefusedWithTheLimit) {
  path = dir / std::string(200, 'a');
  const auto listening = start();
  ASSERT_FALSE(listening);
  EXPECT_EQ(listening.error().kind, ErrorKind::limit);
}

TEST_F(ApiTest, CloseDoesNotRemoveAnotherDaemonsSocket) {
  ASSERT_TRUE(start());
  std::filesystem::remove(path);
  boost::asio::io_context other_io;
  ApiServer other(other_io, path, service);
  ASSERT_TRUE(other.listen());
  stop();
  EXPECT_TRUE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace ublkd::api
