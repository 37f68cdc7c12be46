// open_target and the options of the wrappers.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>

#include "targets/delay/delay_target.h"
#include "targets/fault/fault_target.h"
#include "targets/null/null_target.h"
#include "tests/fakes/fake_port.h"
#include "tests/fakes/requests.h"

namespace ublkd {
namespace {

class WrapperOpenTest : public ::testing::Test {
 protected:
  WrapperOpenTest() {
    inner->type = "null";
    inner->options.set("size", std::uint64_t{65536});
    spec.options.set("target", std::shared_ptr<const TargetSpec>(inner));
    context.types = types;
  }
  std::array<const TargetType*, 3> types{&null_target_type(), &delay_target_type(), &fault_target_type()};
  std::shared_ptr<TargetSpec> inner = std::make_shared<TargetSpec>();
  TargetSpec spec;
  OpenContext context;
};

TEST_F(WrapperOpenTest, UnknownTypeIsRefusedNamingTheKnownOnes) {
  inner->type = "nul";
  spec.type = "delay";
  const auto target = open_target(spec, context);
  ASSERT_FALSE(target);
  EXPECT_EQ(target.error().kind, ErrorKind::not_found);
  EXPECT_NE(target.error().text().find("null, delay, fault"), std::string::npos) << target.error().text();
}

TEST_F(WrapperOpenTest, WrappersHaveTheInnerGeometry) {
  for (const char* type : {"delay", "fault"}) {
    spec.type = type;
    const auto target = open_target(spec, context);
    ASSERT_TRUE(target) << target.error().text();
    EXPECT_EQ((*target)->geometry().size_bytes, 65536u);
  }
}

TEST_F(WrapperOpenTest, FaultEndsWithTheErrorThatWasNamed) {
  spec.type = "fault";
  spec.options.set("errno", std::string("EILSEQ"));
  spec.options.set("ops", std::vector<std::string>{"write"});
  const auto target = open_target(spec, context);
  ASSERT_TRUE(target);
  FakePort port;
  Requests requests;
  auto queue = *(*target)->open_queue(port);
  Request& write = requests.make(Op::write);
  Request& read = requests.make(Op::read);
  RequestList list = list_of({&write, &read});
  queue->queue_rqs(list);
  EXPECT_EQ(write.error, -EILSEQ);
  EXPECT_EQ(read.error, 0);
}

TEST_F(WrapperOpenTest, FaultRangeMustStartInsideTheDevice) {
  spec.type = "fault";
  spec.options.set("offset", std::uint64_t{65536});
  EXPECT_FALSE(open_target(spec, context));
}

TEST_F(WrapperOpenTest, DelayOfOneOpOverridesTheTimeOfAll) {
  spec.type = "delay";
  spec.options.set("time", std::uint64_t{1000});
  spec.options.set("read", std::uint64_t{0});
  const auto target = open_target(spec, context);
  ASSERT_TRUE(target);
  FakePort port;
  Requests requests;
  auto queue = *(*target)->open_queue(port);
  Request& write = requests.make(Op::write);
  Request& read = requests.make(Op::read);
  RequestList list = list_of({&write, &read});
  queue->queue_rqs(list);
  EXPECT_EQ(port.take_done(), std::vector<Request*>{&read});
  port.advance_to(*queue, 1001);
  EXPECT_EQ(port.take_done(), std::vector<Request*>{&write});
}

}  // namespace
}  // namespace ublkd
