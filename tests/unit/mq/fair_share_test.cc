#include "mq/fair_share.h"

#include <gtest/gtest.h>

#include "unit/mq/mq_rig.h"

namespace ublkd {
namespace {

using mq_test::MqRig;

constexpr std::uint64_t ms = 1'000'000;

void read_once(MqRig& rig, std::size_t device) {
  Request& rq = rig.arrive(device);
  rig.dispatch();
  rig.device(device).target.finish(rq);
  rig.dispatch();
}

// DESIGN: what linux-block asks of shared tags; the kernel turns batch allocation off there (blk_mq_get_tags refuses
// BLK_MQ_F_TAG_QUEUE_SHARED).
TEST(SharedTags, BatchesAreTakenAndFlushedAsOnPrivateTags) {
  MqRig rig(64, 2);
  for (int i = 0; i < 32; ++i) rig.arrive(0);
  rig.dispatch();
  EXPECT_EQ(rig.device(0).target.calls, 1) << "one queue_rqs for the plug";
  EXPECT_EQ(rig.device(0).state.batch_whole.counts[5].get(), 1u) << "one batch of 32";
}

// Active requests are counted where tags are taken and put, per batch (linux-block: active accounting moved from
// dispatch to tag allocation, so that a flush of a list needs none).
TEST(SharedTags, ActiveIsCountedAtGetAndPutOnly) {
  MqRig rig(4, 1);
  std::vector<Request*> sent;
  for (int i = 0; i < 6; ++i) sent.push_back(&rig.arrive(0));
  EXPECT_EQ(rig.device(0).state.held, 0u) << "waiting is not active";
  rig.dispatch();
  EXPECT_EQ(rig.device(0).state.held, 4u);
  EXPECT_EQ(rig.device(0).state.tags_taken.get(), 4u);
  rig.device(0).target.finish(*sent[0]);
  EXPECT_EQ(rig.device(0).state.tags_put.get(), 0u) << "done, but its tag is not back yet";
  rig.dispatch();
  EXPECT_EQ(rig.device(0).state.tags_put.get(), 1u);
  EXPECT_EQ(rig.device(0).state.tags_taken.get(), 5u);
}

// The table is written at start (linux-block: rqs[tag] assigned at start, not at allocation): a request that only
// waits is in it nowhere.
TEST(SharedTags, TheInflightTableIsWrittenAtStart) {
  MqRig rig(1, 1);
  Request& first = rig.arrive(0);
  rig.arrive(0);
  EXPECT_EQ(rig.dispatcher.inflight().at(Tag(0)), nullptr);
  rig.dispatch();
  EXPECT_EQ(rig.dispatcher.inflight().at(Tag(0)), &first);
}

TEST(FairShare, ADeviceThatWasIdleIsPassedByItsPromiseAtMost) {
  MqRig rig(4, 2);
  std::vector<Request*> holders;
  for (int i = 0; i < 20; ++i) holders.push_back(&rig.arrive(0));
  rig.dispatch();
  rig.now_ns += ms;
  rig.arrive(1);
  for (int puts = 0; puts < 2; ++puts) {
    rig.device(0).target.finish(*rig.device(0).target.taken.front());
    rig.now_ns += 1000;
    rig.dispatch();
  }
  EXPECT_EQ(rig.device(1).target.taken.size(), 1u) << "two devices of one weight: passed twice at most";
}

TEST(FairShare, NoTagIsSparedForADeviceThatCameOnce) {
  MqRig rig(32, 2);
  read_once(rig, 1);
  rig.now_ns += 100 * ms;
  for (int i = 0; i < 64; ++i) rig.arrive(0);
  rig.dispatch();
  EXPECT_EQ(rig.device(0).state.held, 32u);
}

TEST(FairShare, ATagIsSparedForAKnownIdleDeviceUntilItIsForgotten) {
  MqRig rig(32, 2);
  read_once(rig, 1);
  rig.now_ns += 100 * ms;
  read_once(rig, 1);
  rig.now_ns += 100 * ms;
  for (int i = 0; i < 64; ++i) rig.arrive(0);
  rig.dispatch();
  EXPECT_EQ(rig.device(0).state.held, 31u);
  rig.arrive(1);
  rig.dispatch();
  EXPECT_EQ(rig.device(1).state.held, 1u) << "it finds a tag at once";
  rig.device(1).target.finish(*rig.device(1).target.taken.front());
  rig.dispatch();
  rig.now_ns += known_for_ns;
  rig.dispatch();
  EXPECT_EQ(rig.device(0).state.held, 32u);
}

// Found by the benchmark: a device that had come back long ago and now came once more was known again.
TEST(FairShare, NoTagIsSparedForADeviceThatCameBackLongAgo) {
  MqRig rig(32, 2);
  for (const std::uint64_t pause : {100 * ms, 2 * known_for_ns, 100 * ms}) {  // back after the first only
    read_once(rig, 1);
    rig.now_ns += pause;
  }
  for (int i = 0; i < 64; ++i) rig.arrive(0);
  rig.dispatch();
  EXPECT_EQ(rig.device(0).state.held, 32u);
}

TEST(FairShare, EqualIsNotDividedAtDepthOne) {
  MqRig rig(1, 2);
  rig.dispatcher.configure({.policy = SharePolicy::equal});
  rig.arrive(0);
  rig.arrive(1);
  rig.dispatch();
  EXPECT_EQ(rig.dispatcher.pool().free(), 0u);
}

// blk-mq: max((depth + users - 1) / users, 4).
TEST(FairShare, EqualGivesEachAtLeastFour) {
  MqRig rig(16, 8);
  rig.dispatcher.configure({.policy = SharePolicy::equal});
  for (int d = 0; d < 8; ++d) rig.arrive(d);
  rig.dispatch();
  for (int i = 0; i < 16; ++i) rig.arrive(0);
  rig.dispatch();
  EXPECT_EQ(rig.device(0).state.held, 4u);
}

TEST(FairShare, EqualForgetsADeviceAfterItsTime) {
  MqRig rig(8, 2);
  rig.dispatcher.configure({.policy = SharePolicy::equal, .idle_after_ns = 100 * ms});
  Request& other = rig.arrive(1);
  rig.dispatch();
  rig.device(1).target.finish(other);
  rig.dispatch();
  for (int i = 0; i < 16; ++i) rig.arrive(0);
  rig.dispatch();
  EXPECT_EQ(rig.device(0).state.held, 4u) << "two active devices";
  EXPECT_NE(rig.dispatcher.wake_ns(), time_never_ns) << "tags are withheld: somebody must look again";
  rig.now_ns += 101 * ms;
  rig.dispatch();
  EXPECT_EQ(rig.device(0).state.held, 8u);
}

TEST(FairShare, AWakeUpIsNeverDueAgainAtOnce) {
  MqRig rig(2, 2);
  rig.device(0).target.accept = 0;
  rig.arrive(0);
  rig.dispatch();
  for (int i = 0; i < 4; ++i) rig.arrive(1);
  rig.dispatch();
  ASSERT_EQ(rig.dispatcher.pool().free(), 0u);
  rig.now_ns += 10 * decline_retry_ns;
  rig.dispatch();
  EXPECT_EQ(rig.dispatcher.wake_ns(), time_never_ns) << "the declined device can do nothing without a tag";
}

TEST(FairShare, AFlushGoesBeforeItsDevicesWaitingWrites) {
  MqRig rig(1, 1);
  Request& holder = rig.arrive(0);
  rig.dispatch();
  rig.arrive(0);
  Request& flush = rig.arrive(0, Op::flush);
  rig.device(0).target.finish(holder);
  rig.dispatch();
  EXPECT_EQ(rig.device(0).target.taken.front(), &flush);
}

TEST(FairShare, StarvedTimeIsCountedWhileADeviceWaitsWithoutATag) {
  MqRig rig(1, 2);
  Request& holder = rig.arrive(0);
  rig.dispatch();
  rig.arrive(1);
  rig.dispatch();
  rig.now_ns += 7 * ms;
  rig.device(0).target.finish(holder);
  rig.dispatch();
  EXPECT_EQ(rig.device(1).state.starved_ns.get(), 7 * ms);
  EXPECT_EQ(rig.device(0).state.starved_ns.get(), 0u);
  EXPECT_EQ(rig.device(0).state.tag_time_ns.get(), 7 * ms);
}

}  // namespace
}  // namespace ublkd
