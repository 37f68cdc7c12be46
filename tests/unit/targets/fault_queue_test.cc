// The fault wrapper: which requests fail, and that all others are left as they are.
#include "targets/fault/fault_queue.h"

#include <gtest/gtest.h>

#include "tests/fakes/fake_port.h"
#include "tests/fakes/requests.h"
#include "tests/fakes/scripted_target.h"

namespace ublkd {
namespace {

using Taken = std::vector<Request*>;

FaultRule all_ops() {
  FaultRule rule;
  rule.ops.fill(true);
  return rule;
}

class FaultQueueTest : public ::testing::Test {
 protected:
  // Offers list to a queue of this rule; what is left stays in it.
  void offer(const FaultRule& rule, RequestList& list) {
    if (queue == nullptr)
      queue = std::make_unique<FaultQueue>(port, std::make_unique<ScriptedQueue>(port, inner), rule);
    queue->queue_rqs(list);
  }
  FakePort port;
  Requests requests;
  ScriptedState inner;
  std::unique_ptr<FaultQueue> queue;
};

TEST_F(FaultQueueTest, MatchingRequestsFailAndTheOthersGoDownInOrder) {
  FaultRule rule;
  rule.ops[static_cast<std::size_t>(Op::write)] = true;
  rule.error = -ENOSPC;
  Request& r1 = requests.make(Op::read);
  Request& w = requests.make(Op::write);
  Request& r2 = requests.make(Op::read);
  RequestList list = list_of({&r1, &w, &r2});
  offer(rule, list);
  EXPECT_EQ(inner.taken, (Taken{&r1, &r2}));
  EXPECT_EQ(port.take_done(), Taken{&w});
  EXPECT_EQ(w.error, -ENOSPC);
}

TEST_F(FaultQueueTest, EachThirdFails) {
  FaultRule rule = all_ops();
  rule.every = 3;
  Taken rqs;
  RequestList list;
  for (int i = 0; i < 9; ++i) {
    rqs.push_back(&requests.make(Op::read));
    list.push_back(*rqs.back());
  }
  offer(rule, list);
  EXPECT_EQ(port.take_done(), (Taken{rqs[2], rqs[5], rqs[8]}));
  EXPECT_EQ(inner.taken.size(), 6u);
}

TEST_F(FaultQueueTest, ALeftoverIsCountedOnce) {
  FaultRule rule = all_ops();
  rule.every = 3;
  Request& a = requests.make(Op::read);
  Request& b = requests.make(Op::read);
  Request& c = requests.make(Op::read);
  RequestList list = list_of({&a, &b, &c});
  inner.accept_max = 0;
  for (int i = 0; i < 5; ++i) {
    offer(rule, list);
    ASSERT_EQ(list.size(), 3u);
    ASSERT_EQ(list.front(), &a);
    ASSERT_TRUE(port.take_done().empty());
  }
  inner.accept_max = 1;
  offer(rule, list);
  EXPECT_EQ(inner.taken, Taken{&a});
  EXPECT_EQ(list.front(), &b);
  inner.accept_max = 8;
  offer(rule, list);
  EXPECT_EQ(inner.taken, (Taken{&a, &b}));
  EXPECT_EQ(port.take_done(), Taken{&c});
  EXPECT_TRUE(list.empty());
}

TEST_F(FaultQueueTest, StopsAfterCount) {
  FaultRule rule = all_ops();
  rule.count_max = 2;
  RequestList list;
  for (int i = 0; i < 5; ++i) list.push_back(requests.make(Op::read));
  offer(rule, list);
  EXPECT_EQ(port.take_done().size(), 2u);
  EXPECT_EQ(inner.taken.size(), 3u);
}

TEST_F(FaultQueueTest, OnlyRequestsThatTouchTheRangeFail) {
  FaultRule rule = all_ops();
  rule.whole_device = false;
  rule.begin_bytes = 4096;
  rule.end_bytes = 8192;
  Request& before = requests.make(Op::read, 0, 4096);
  Request& first = requests.make(Op::read, 3584, 1024);
  Request& last = requests.make(Op::write, 7680, 1024);
  Request& after = requests.make(Op::read, 8192, 512);
  Request& flush = requests.make(Op::flush);
  RequestList list = list_of({&before, &first, &last, &after, &flush});
  offer(rule, list);
  EXPECT_EQ(port.take_done(), (Taken{&first, &last}));
  EXPECT_EQ(inner.taken, (Taken{&before, &after, &flush}));
}

TEST_F(FaultQueueTest, DeadlinesAndAbortsReachTheInnerQueue) {
  Request& rq = requests.make(Op::read);
  RequestList list = list_of({&rq});
  offer(FaultRule{}, list);
  queue->on_deadline();
  queue->abort(rq);
  queue->on_cqe(rq, 0, -5);
  EXPECT_EQ(inner.deadlines, 1u);
  EXPECT_EQ(inner.aborted, Taken{&rq});
  EXPECT_EQ(port.take_done(), Taken{&rq});
}

}  // namespace
}  // namespace ublkd
