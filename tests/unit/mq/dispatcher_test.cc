#include "mq/dispatcher.h"

#include <gtest/gtest.h>

#include "unit/mq/mq_rig.h"

namespace ublkd {
namespace {

using mq_test::MqRig;

TEST(Dispatcher, APlugReachesItsTargetAsOneList) {
  MqRig rig(64, 1);
  for (int i = 0; i < 32; ++i) rig.arrive(0);
  rig.dispatch();
  EXPECT_EQ(rig.device(0).target.calls, 1);
  EXPECT_EQ(rig.device(0).target.taken.size(), 32u);
}

TEST(Dispatcher, EightDevicesInOnePlugAreEightCalls) {
  MqRig rig(64, 8);
  for (int i = 0; i < 32; ++i) rig.arrive(i % 8);
  rig.dispatch();
  for (int d = 0; d < 8; ++d) {
    EXPECT_EQ(rig.device(d).target.calls, 1);
    EXPECT_EQ(rig.device(d).target.taken.size(), 4u);
  }
}

TEST(Dispatcher, OrderIsKeptWithinADevice) {
  MqRig rig(16, 2);
  std::vector<Request*> sent;
  for (int i = 0; i < 16; ++i) {
    Request& rq = rig.arrive(i % 2);
    if (i % 2 == 0) sent.push_back(&rq);
  }
  rig.dispatch();
  EXPECT_TRUE(std::equal(sent.begin(), sent.end(), rig.device(0).target.taken.begin()));
}

TEST(Dispatcher, APoolOfOneServesManyInlineCompletionsInOneTurn) {
  MqRig rig(1, 2);
  for (int d = 0; d < 2; ++d) rig.device(d).target.inline_complete = true;
  for (int i = 0; i < 128; ++i) rig.arrive(i % 2);
  rig.dispatch();
  EXPECT_EQ(rig.reaped.size(), 128u);
  EXPECT_EQ(rig.dispatcher.waiting(), 0u);
  EXPECT_EQ(rig.dispatcher.pool().free(), 1u);
}

TEST(Dispatcher, LeftoversGoToTheHeadInOrderAndGiveTheirTagsBack) {
  MqRig rig(16, 1);
  rig.device(0).target.accept = 3;
  std::vector<Request*> sent;
  for (int i = 0; i < 8; ++i) sent.push_back(&rig.arrive(0));
  rig.dispatch();
  EXPECT_EQ(rig.device(0).target.calls, 1);
  EXPECT_EQ(rig.dispatcher.pool().free(), 13u);
  EXPECT_EQ(rig.device(0).state.tags_taken.get(), 3u) << "leftovers are not counted";
  EXPECT_EQ(rig.device(0).state.waiting.front(), sent[3]);
  rig.device(0).target.finish(*sent[0]);
  rig.dispatch();
  EXPECT_EQ(rig.device(0).target.taken.back(), sent[5]);
}

TEST(Dispatcher, ADeclinedTargetIsAskedAgainAfterItsDeadline) {
  MqRig rig(16, 1);
  rig.device(0).target.accept = 0;
  rig.arrive(0);
  rig.dispatch();
  EXPECT_EQ(rig.device(0).target.calls, 1);
  rig.dispatch();
  EXPECT_EQ(rig.device(0).target.calls, 1) << "not offered again at once";
  EXPECT_EQ(rig.dispatcher.wake_ns(), rig.now_ns + decline_retry_ns);
  rig.now_ns += decline_retry_ns;
  rig.device(0).target.accept = 1;
  rig.dispatch();
  EXPECT_EQ(rig.device(0).target.taken.size(), 1u);
  EXPECT_EQ(rig.dispatcher.wake_ns(), time_never_ns);
}

TEST(Dispatcher, OneTargetsLeftoversDoNotStopTheNext) {
  MqRig rig(16, 2);
  rig.device(0).target.accept = 0;
  for (int i = 0; i < 8; ++i) rig.arrive(i % 2);
  rig.dispatch();
  EXPECT_EQ(rig.device(1).target.taken.size(), 4u);
}

// Found by the simulation: the pass that granted everything to a device that declined ended the turn,
// and the other device's wake-up was lost.
TEST(Dispatcher, TagsOfADeviceThatDeclinesServeTheNextInTheSameTurn) {
  MqRig rig(4, 2);
  rig.device(0).target.accept = 0;
  for (int i = 0; i < 4; ++i) rig.arrive(0);
  ++rig.turn;
  rig.arrive(1);
  rig.dispatch();
  EXPECT_EQ(rig.device(1).target.taken.size(), 1u);
}

TEST(Dispatcher, AFreedTagGoesToAnotherDevicesWaiter) {
  MqRig rig(2, 2);
  Request& first = rig.arrive(0);
  rig.arrive(0);
  rig.dispatch();
  ++rig.turn;
  Request& waiting = rig.arrive(1);
  rig.dispatch();
  EXPECT_TRUE(rig.device(1).target.taken.empty());
  rig.device(0).target.finish(first);
  rig.dispatch();
  ASSERT_EQ(rig.device(1).target.taken.size(), 1u);
  EXPECT_EQ(rig.device(1).target.taken.front(), &waiting);
}

TEST(Dispatcher, WithoutSharingFirstComeIsFirstServedAcrossDevices) {
  MqRig rig(4, 2);
  rig.dispatcher.configure({.policy = SharePolicy::none});
  std::vector<Request*> holders;
  for (int i = 0; i < 4; ++i) holders.push_back(&rig.arrive(0));
  rig.dispatch();
  ++rig.turn;
  rig.arrive(1);
  ++rig.turn;
  for (int i = 0; i < 8; ++i) rig.arrive(0);
  rig.dispatch();
  rig.device(0).target.finish(*holders[0]);
  rig.dispatch();
  EXPECT_EQ(rig.device(1).target.taken.size(), 1u) << "the older request of the other device goes first";
}

TEST(Dispatcher, TakeWaitingEmptiesADeviceAndForgetsIt) {
  MqRig rig(1, 2);
  for (int i = 0; i < 6; ++i) rig.arrive(i % 2);
  rig.dispatch();
  EXPECT_EQ(rig.dispatcher.take_waiting(rig.device(1).state).size(), 3u);
  EXPECT_FALSE(rig.device(1).state.ready);
  rig.check();
  EXPECT_EQ(rig.dispatcher.waiting(), 2u);
}

}  // namespace
}  // namespace ublkd
