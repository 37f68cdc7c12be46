// What tags, plug, sharing and accounting cost per I/O: the dispatcher beside a free list without any of them, on the
// same requests. Run under an instruction counter (cost.py); it prints nothing but what it did.
//
//   mq_cost free-list|dispatcher|dispatcher-one-by-one DEVICES OUTSTANDING IOS
//
// One by one: between the dispatcher and each backend stands a queue that hands a list on by one call per request, as a
// backend without queue_rqs would have it.
//
// Each turn up to 32 requests complete and as many arrive again, over all devices in turn. 128 tags.
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "mq/dispatcher.h"

namespace ublkd {
namespace {

constexpr std::uint32_t depth = 128;
constexpr std::uint32_t batch = 32;
constexpr std::uint64_t turn_ns = 100'000;

// Holds what it gets; the oldest of all devices complete first.
class Backend final : public TargetQueue {
 public:
  explicit Backend(RequestList& held) : held_(held) {}
  void queue_rqs(RequestList& list) override { held_.splice_back(list); }
  void on_cqe(Request&, std::uint8_t, std::int32_t) override {}
  void abort(Request&) override {}

 private:
  RequestList& held_;
};

// Below is called as any target is: through the table of its virtual functions.
class OneByOne final : public TargetQueue {
 public:
  explicit OneByOne(std::unique_ptr<TargetQueue> below) : below_(std::move(below)) {}
  void queue_rqs(RequestList& list) override {
    while (!list.empty()) {
      RequestList one;
      one.push_back(list.pop_front());
      below_->queue_rqs(one);
    }
  }
  void on_cqe(Request&, std::uint8_t, std::int32_t) override {}
  void abort(Request&) override {}

 private:
  std::unique_ptr<TargetQueue> below_;
};

struct Device {
  DeviceState state;
  std::unique_ptr<TargetQueue> backend;
};

enum class Offer { lists, one_by_one };

struct Load {
  std::uint32_t devices;
  std::uint32_t outstanding;
  std::uint64_t ios;
};

// Not inlined, so that no caller knows what it calls.
[[gnu::noinline]] std::unique_ptr<TargetQueue> make_backend(RequestList& held, Offer offer) {
  auto backend = std::make_unique<Backend>(held);
  if (offer == Offer::one_by_one) return std::make_unique<OneByOne>(std::move(backend));
  return backend;
}

struct WithDispatcher {
  void add(DeviceState& d) { dispatcher.add(d); }
  void arrive(DeviceState& d, Request& rq) { dispatcher.arrive(d, rq); }
  void dispatch(RequestList& done, RequestList& reaped, std::uint64_t now) { dispatcher.dispatch(done, reaped, now); }
  Dispatcher dispatcher{depth};
};

// The least that works: a stack of tags, a list per device, first come first served by device.
struct WithFreeList {
  WithFreeList() {
    for (std::uint32_t t = 0; t < depth; ++t) free.push_back(Tag(static_cast<std::uint16_t>(t)));
  }
  void add(DeviceState&) {}
  void arrive(DeviceState& d, Request& rq) {
    if (d.waiting.empty()) {
      d.next_ready = nullptr;
      (head == nullptr ? head : tail->next_ready) = &d;
      tail = &d;
    }
    d.waiting.push_back(rq);
  }
  void dispatch(RequestList& done, RequestList& reaped, std::uint64_t) {
    for (Request* rq = done.front(); rq != nullptr; rq = rq->next) free.push_back(rq->tag);
    reaped.splice_back(done);
    while (head != nullptr && !free.empty()) {
      DeviceState& d = *head;
      RequestList list;
      while (!free.empty() && !d.waiting.empty()) {
        Request& rq = d.waiting.pop_front();
        rq.tag = free.back();
        free.pop_back();
        rq.state = RequestState::started;
        list.push_back(rq);
      }
      d.target->queue_rqs(list);
      if (!d.waiting.empty()) break;
      head = d.next_ready;
    }
  }
  std::vector<Tag> free;
  DeviceState* head = nullptr;
  DeviceState* tail = nullptr;
};

template <class Engine>
void run(const Load& load, Offer offer) {
  RequestList held, done, reaped;
  Engine engine;
  std::deque<Device> table(load.devices);
  for (Device& d : table) {
    d.backend = make_backend(held, offer);
    d.state.target = d.backend.get();
    engine.add(d.state);
  }
  std::deque<Request> requests(load.outstanding);
  std::uint64_t now = turn_ns, ended = 0;
  const auto arrive = [&](Request& rq) {
    rq.state = RequestState::arrived;
    rq.arrived_ns = now;
    engine.arrive(*static_cast<DeviceState*>(rq.owner), rq);
  };
  for (std::uint32_t i = 0; i < load.outstanding; ++i) {
    requests[i].owner = &table[i % load.devices].state;
    arrive(requests[i]);
  }
  while (ended < load.ios) {
    engine.dispatch(done, reaped, now);
    now += turn_ns;
    while (!reaped.empty()) {
      ++ended;
      arrive(reaped.pop_front());
    }
    for (std::uint32_t n = 0; n < batch && !held.empty(); ++n) {
      Request& rq = held.pop_front();
      rq.state = RequestState::done;
      done.push_back(rq);
    }
  }
  std::printf("%llu\n", static_cast<unsigned long long>(ended));
}

// False: there is no such engine.
bool run_engine(std::string_view engine, const Load& load) {
  if (engine == "free-list")
    run<WithFreeList>(load, Offer::lists);
  else if (engine == "dispatcher")
    run<WithDispatcher>(load, Offer::lists);
  else if (engine == "dispatcher-one-by-one")
    run<WithDispatcher>(load, Offer::one_by_one);
  else
    return false;
  return true;
}

}  // namespace
}  // namespace ublkd

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const auto number = [argv](int i) { return std::strtoul(argv[i], nullptr, 10); };
  const ublkd::Load load{static_cast<std::uint32_t>(number(2)), static_cast<std::uint32_t>(number(3)), number(4)};
  return load.devices > 0 && ublkd::run_engine(argv[1], load) ? 0 : 2;
}
