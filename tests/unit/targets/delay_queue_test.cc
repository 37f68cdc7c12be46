// The delay wrapper: order, time, leftovers, abort.
#include "targets/delay/delay_queue.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "tests/fakes/fake_port.h"
#include "tests/fakes/requests.h"
#include "tests/fakes/scripted_target.h"

namespace ublkd {
namespace {

using Taken = std::vector<Request*>;

class DelayQueueTest : public ::testing::Test {
 protected:
  static constexpr OpDelays delays{1000, 5000, 0, 1000, 1000};  // read, write, flush, discard, zeroes

  void start(std::initializer_list<Request*> rqs) {
    RequestList list = list_of(rqs);
    queue.queue_rqs(list);
    EXPECT_TRUE(list.empty());
  }

  FakePort port;  // its time starts at 1
  Requests requests;
  ScriptedState inner;
  DelayQueue queue{port, std::make_unique<ScriptedQueue>(port, inner), delays};
};

TEST_F(DelayQueueTest, HoldsARequestForItsTime) {
  Request& rq = requests.make(Op::read);
  start({&rq});
  EXPECT_EQ(port.wake_ns(), 1001u);
  port.advance_to(queue, 1000);
  EXPECT_TRUE(inner.taken.empty());
  port.advance_to(queue, 1001);
  EXPECT_EQ(inner.taken, Taken{&rq});
}

TEST_F(DelayQueueTest, NoTimeMeansAtOnce) {
  Request& rq = requests.make(Op::flush);
  start({&rq});
  EXPECT_EQ(inner.taken, Taken{&rq});
  EXPECT_EQ(port.wake_ns(), time_never_ns);
}

TEST_F(DelayQueueTest, GoesDownInOrderOfDeadlineThenArrival) {
  Request& w = requests.make(Op::write);
  Request& r = requests.make(Op::read);
  Request& d = requests.make(Op::discard);
  start({&w, &d, &r});
  port.advance_to(queue, 6000);
  EXPECT_EQ(inner.taken, (Taken{&d, &r, &w}));
  EXPECT_EQ(inner.calls, 1u);  // as one list
}

TEST_F(DelayQueueTest, AsksAgainForTheNextDeadline) {
  Request& r = requests.make(Op::read);
  Request& w = requests.make(Op::write);
  start({&r, &w});
  port.advance_to(queue, 1001);
  EXPECT_EQ(inner.taken, Taken{&r});
  EXPECT_EQ(port.wake_ns(), 5001u);
}

TEST_F(DelayQueueTest, LeftoversAreOfferedAgainInOrderAfterTheRetryTime) {
  Request& a = requests.make(Op::read);
  Request& b = requests.make(Op::read);
  Request& c = requests.make(Op::read);
  inner.accept_max = 1;
  start({&a, &b, &c});
  port.advance_to(queue, 2000);
  EXPECT_EQ(inner.taken, Taken{&a});
  EXPECT_EQ(port.wake_ns(), 2000 + DelayQueue::retry_ns);
  port.advance_to(queue, 2000 + DelayQueue::retry_ns);
  EXPECT_EQ(inner.taken, (Taken{&a, &b}));
  queue.on_cqe(a, 0, 0);  // the inner queue has room again: not later than now
  EXPECT_EQ(inner.taken, (Taken{&a, &b, &c}));
}

TEST_F(DelayQueueTest, LeftoversDoNotLetLaterRequestsPass) {
  Request& a = requests.make(Op::flush);
  Request& b = requests.make(Op::flush);
  inner.accept_max = 0;
  start({&a});
  start({&b});
  inner.accept_max = 8;
  port.advance_to(queue, 1 + DelayQueue::retry_ns);
  EXPECT_EQ(inner.taken, (Taken{&a, &b}));
}

TEST_F(DelayQueueTest, AbortOfAHeldRequestEndsItAtOnce) {
  Request& a = requests.make(Op::read);
  Request& b = requests.make(Op::read);
  Request& c = requests.make(Op::read);
  start({&a, &b, &c});
  queue.abort(b);
  EXPECT_EQ(port.take_done(), Taken{&b});
  EXPECT_EQ(b.error, -EIO);
  port.advance_to(queue, 1001);
  EXPECT_EQ(inner.taken, (Taken{&a, &c}));
  EXPECT_TRUE(inner.aborted.empty());
}

TEST_F(DelayQueueTest, AbortOfALeftoverEndsItAtOnce) {
  Request& a = requests.make(Op::flush);
  inner.accept_max = 0;
  start({&a});
  queue.abort(a);
  EXPECT_EQ(port.take_done(), Taken{&a});
  port.advance_to(queue, 1 + DelayQueue::retry_ns);
  EXPECT_TRUE(inner.taken.empty());
}

TEST_F(DelayQueueTest, AbortOfAStartedRequestIsTheInnerQueuesTask) {
  Request& a = requests.make(Op::flush);
  start({&a});
  queue.abort(a);
  EXPECT_EQ(inner.aborted, Taken{&a});
  EXPECT_TRUE(port.take_done().empty());
}

TEST_F(DelayQueueTest, SharesTheWakeUpWithTheInnerQueue) {
  Request& w = requests.make(Op::write);
  start({&w});
  inner.wake_ns = 3000;
  port.wake_at(2000);  // as the inner queue would
  port.advance_to(queue, 2000);
  EXPECT_EQ(inner.deadlines, 1u);
  EXPECT_EQ(port.wake_ns(), 3000u);  // the inner queue's, before ours
  inner.wake_ns = 0;
  port.advance_to(queue, 3000);
  EXPECT_EQ(port.wake_ns(), 5001u);  // ours was not lost
}

TEST_F(DelayQueueTest, StackedDelaysAddUp) {
  DelayQueue outer(
      port, std::make_unique<DelayQueue>(port, std::make_unique<ScriptedQueue>(port, inner), delays), delays);
  Request& rq = requests.make(Op::read);
  RequestList list = list_of({&rq});
  outer.queue_rqs(list);
  port.advance_to(outer, 1001);
  EXPECT_TRUE(inner.taken.empty());
  EXPECT_EQ(port.wake_ns(), 2001u);
  port.advance_to(outer, 2001);
  EXPECT_EQ(inner.taken, Taken{&rq});
}

}  // namespace
}  // namespace ublkd
