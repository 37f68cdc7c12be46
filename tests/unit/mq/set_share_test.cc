#include "mq/set_share.h"

#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <random>
#include <thread>

#include "base/clock.h"
#include "mq/dispatcher.h"

namespace ublkd {
namespace {

// A hardware queue in small: a thread with a dispatcher on the set's pool, and clients that keep requests outstanding.
class SmallQueue final : public QueueWaker {
 public:
  struct Device final : TargetQueue {
    explicit Device(SmallQueue& q) : queue(q) { state.target = this; }
    void queue_rqs(RequestList& list) override {
      while (!list.empty()) {
        Request& rq = list.pop_front();
        taken.push_back(&rq);
        // No request of another thread has this tag: the pool gave it to us alone.
        EXPECT_EQ(queue.owners[raw(rq.tag)].exchange(&rq), nullptr);
      }
    }
    void on_cqe(Request&, std::uint8_t, std::int32_t) override {}
    void abort(Request&) override {}
    SmallQueue& queue;
    DeviceState state;
    std::deque<Request*> taken;
    std::uint64_t completed = 0;
  };

  SmallQueue(SetShare& set, std::uint32_t index, std::vector<std::uint32_t> numbers,
             std::vector<std::atomic<Request*>>& tag_owners)
      : owners(tag_owners), dispatcher(set, index), index_(index) {
    set.attach_queue(index, *this);
    for (const std::uint32_t n : numbers) {
      devices.push_back(std::make_unique<Device>(*this));
      devices.back()->state.number = n;
      dispatcher.add(devices.back()->state);
    }
  }

  void wake() override {
    woken_.store(1);
    woken_.notify_one();
  }

  // Each device completes `requests`, `depth` at a time.
  void run(std::uint32_t depth, std::uint64_t requests) {
    std::mt19937 random(index_);
    std::deque<Request> pool;
    std::deque<Request*> idle;
    std::vector<std::uint64_t> to_send(devices.size(), requests);
    for (std::size_t d = 0; d < devices.size(); ++d)
      for (std::uint32_t i = 0; i < depth; ++i) {
        Request& rq = pool.emplace_back();
        rq.owner = &devices[d]->state;
        rq.index = static_cast<std::uint32_t>(d);
        idle.push_back(&rq);
      }
    std::uint64_t left = requests * devices.size();
    while (left > 0) {
      now = monotonic_ns();
      woken_.store(0);
      for (std::size_t n = idle.size(); n > 0; --n) {
        Request* rq = idle.front();
        idle.pop_front();
        if (to_send[rq->index] == 0) continue;
        --to_send[rq->index];
        rq->state = RequestState::arrived;
        rq->arrived_ns = now;
        dispatcher.arrive(devices[rq->index]->state, *rq);
      }
      std::size_t held = 0;
      for (const auto& d : devices) {
        for (std::size_t n = random() % (d->taken.size() + 1); n > 0; --n) finish(*d);
        held += d->taken.size();
      }
      dispatcher.dispatch(done_, reaped_, now);
      while (!reaped_.empty()) {
        Request& rq = reaped_.pop_front();
        rq.state = RequestState::idle;
        ++devices[rq.index]->completed;
        --left;
        idle.push_back(&rq);
      }
      held = 0;
      for (const auto& d : devices) held += d->taken.size();
      if (left == 0 || held > 0 || !idle_is_useless(idle, to_send)) continue;
      if (dispatcher.wake_ns() != time_never_ns) {
        std::this_thread::yield();
        continue;
      }
      ++sleeps;
      woken_.wait(0);  // for ever, if a wake-up is lost
    }
    for (const auto& d : devices) dispatcher.remove(d->state);
  }

  std::vector<std::atomic<Request*>>& owners;
  Dispatcher dispatcher;
  std::vector<std::unique_ptr<Device>> devices;
  std::uint64_t now = 0;
  std::uint64_t sleeps = 0;

 private:
  void finish(Device& d) {
    Request& rq = *d.taken.front();
    d.taken.pop_front();
    EXPECT_EQ(owners[raw(rq.tag)].exchange(nullptr), &rq);
    rq.state = RequestState::done;
    done_.push_back(rq);
  }
  static bool idle_is_useless(const std::deque<Request*>& idle, const std::vector<std::uint64_t>& to_send) {
    for (const Request* rq : idle)
      if (to_send[rq->index] > 0) return false;
    return true;
  }

  std::uint32_t index_;
  RequestList done_, reaped_;
  std::atomic<int> woken_{0};
};

// DESIGN: sharing turns neither batch allocation nor queue_rqs off, also where all queues of a set share one pool.
TEST(SharedTags, APlugOverASetsPoolIsOneBatchAndOneCall) {
  struct Counting final : TargetQueue {
    void queue_rqs(RequestList& list) override {
      sizes.push_back(list.size());
      list.clear();
    }
    void on_cqe(Request&, std::uint8_t, std::int32_t) override {}
    void abort(Request&) override {}
    std::vector<std::uint32_t> sizes;
  };
  SetShare set(64, 2, 2);
  Counting target;
  DeviceState devices[2];
  Dispatcher dispatcher(set, 0);
  for (DeviceState& d : devices) {
    d.target = &target;
    d.number = set.add(1);
    dispatcher.add(d);
  }
  std::vector<Request> plug(32);
  for (Request& rq : plug) {
    rq.owner = &devices[0];
    rq.state = RequestState::arrived;
    dispatcher.arrive(devices[0], rq);
  }
  RequestList done, reaped;
  dispatcher.dispatch(done, reaped, 1000);
  EXPECT_EQ(target.sizes, (std::vector<std::uint32_t>{32})) << "one queue_rqs for the plug";
  EXPECT_EQ(devices[0].batch_whole.counts[5].get(), 1u) << "one batch of 32";
  EXPECT_EQ(set.pool().free(), 32u);
}

struct SetCase {
  std::uint32_t depth, queues, devices, outstanding;
  SharePolicy policy;
};

class SetShareThreads : public testing::TestWithParam<SetCase> {};

// Four threads on one pool, down to a single tag: nobody sleeps for ever (CASES A51), no tag is given twice, and all
// are free at the end.
TEST_P(SetShareThreads, EveryRequestEndsAndNoWakeUpIsLost) {
  const SetCase c = GetParam();
  constexpr std::uint64_t requests = 3000;
  SetShare set(c.depth, c.queues, c.devices);
  set.configure({.policy = c.policy});
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t d = 0; d < c.devices; ++d) numbers.push_back(set.add(1 + d));
  std::vector<std::atomic<Request*>> owners(c.depth);
  std::vector<std::unique_ptr<SmallQueue>> queues;
  for (std::uint32_t q = 0; q < c.queues; ++q) queues.push_back(std::make_unique<SmallQueue>(set, q, numbers, owners));
  std::vector<std::thread> threads;
  for (auto& q : queues) threads.emplace_back([&q, &c] { q->run(c.outstanding, requests); });
  for (auto& t : threads) t.join();
  for (const auto& q : queues)
    for (const auto& d : q->devices) EXPECT_EQ(d->completed, requests);
  EXPECT_EQ(set.pool().free(), c.depth);
  for (const std::uint32_t n : numbers) set.remove(n);
}

INSTANTIATE_TEST_SUITE_P(Cases, SetShareThreads,
                         testing::Values(SetCase{1, 4, 2, 10, SharePolicy::none},
                                         SetCase{1, 4, 2, 10, SharePolicy::adaptive},
                                         SetCase{4, 4, 3, 8, SharePolicy::equal},
                                         SetCase{32, 4, 2, 16, SharePolicy::adaptive},
                                         SetCase{200, 3, 4, 8, SharePolicy::adaptive}),
                         [](const auto& one) {
                           return std::string(share_policy_name(one.param.policy)) + "_" +
                                  std::to_string(one.param.depth) + "_tags";
                         });

}  // namespace
}  // namespace ublkd
