// MqRig: a dispatcher with a few devices and their requests, for unit tests and the simulation.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <vector>

#include "mq/dispatcher.h"

namespace ublkd::mq_test {

// A target whose queue takes at most accept requests a call and holds them until finish().
class HoldingTarget final : public TargetQueue {
 public:
  explicit HoldingTarget(RequestList& done) : done_(done) {}

  void queue_rqs(RequestList& list) override {
    ++calls;
    for (std::uint32_t n = 0; n < accept && !list.empty(); ++n) {
      Request& rq = list.pop_front();
      EXPECT_EQ(rq.state, RequestState::started);
      EXPECT_NE(rq.tag, tag_none);
      taken.push_back(&rq);
      if (inline_complete) finish(rq);
    }
  }
  void on_cqe(Request&, std::uint8_t, std::int32_t) override {}
  void abort(Request& rq) override { finish(rq, -5); }

  void finish(Request& rq, std::int32_t error = 0) {
    std::erase(taken, &rq);
    rq.state = RequestState::done;
    rq.error = error;
    done_.push_back(rq);
  }

  std::uint32_t accept = ~0u;
  bool inline_complete = false;
  int calls = 0;
  std::deque<Request*> taken;  // held, in the order they came

 private:
  RequestList& done_;
};

struct MqDevice {
  explicit MqDevice(RequestList& done) : target(done) { state.target = &target; }
  DeviceState state;
  HoldingTarget target;
};

class MqRig {
 public:
  MqRig(std::uint32_t depth, std::size_t devices) : dispatcher(depth) {
    for (std::size_t i = 0; i < devices; ++i) {
      devices_.push_back(std::make_unique<MqDevice>(done));
      dispatcher.add(devices_.back()->state);
    }
  }

  MqDevice& device(std::size_t i) { return *devices_[i]; }
  std::size_t devices() const { return devices_.size(); }

  // A new request of device i, in the current turn.
  Request& arrive(std::size_t i, Op op = Op::read) {
    requests_.push_back(std::make_unique<Request>());
    Request& rq = *requests_.back();
    rq.owner = &devices_[i]->state;
    rq.state = RequestState::arrived;
    rq.order = turn;
    rq.arrived_ns = now_ns;
    rq.op = op;
    dispatcher.arrive(devices_[i]->state, rq);
    return rq;
  }

  void dispatch() {
    dispatcher.dispatch(done, reaped, now_ns);
    check();
  }

  // The invariants of dispatcher.h.
  void check() {
    std::uint64_t active = 0, waiting = 0, table = 0;
    for (const auto& d : devices_) {
      active += d->state.held;
      waiting += d->state.waiting.size();
      ASSERT_EQ(d->state.tags_taken.get() - d->state.tags_put.get(), d->state.held);
      ASSERT_EQ(d->state.held, d->target.taken.size() + pending_done(*d));
      ASSERT_EQ(d->state.ready, !d->state.waiting.empty());
    }
    for (std::uint32_t t = 0; t < dispatcher.inflight().depth(); ++t) {
      const Request* rq = dispatcher.inflight().at(Tag(static_cast<std::uint16_t>(t)));
      if (rq == nullptr) continue;
      ++table;
      ASSERT_EQ(raw(rq->tag), t);
    }
    ASSERT_EQ(active, dispatcher.pool().depth() - dispatcher.pool().free());
    ASSERT_EQ(active, table);
    ASSERT_EQ(waiting, dispatcher.waiting());
    const bool free = dispatcher.pool().free() > 0;
    const bool withheld = dispatcher.share().wake_ns() != time_never_ns;
    for (const auto& d : devices_) ASSERT_TRUE(withheld || !free || d->state.waiting.empty() || d->state.declined);
  }

  Dispatcher dispatcher;
  RequestList done, reaped;
  std::uint32_t turn = 1;
  std::uint64_t now_ns = 1000;

 private:
  std::uint64_t pending_done(const MqDevice& d) const {
    std::uint64_t n = 0;
    for (const Request* rq = done.front(); rq != nullptr; rq = rq->next) n += rq->owner == &d.state ? 1 : 0;
    return n;
  }
  std::vector<std::unique_ptr<MqDevice>> devices_;
  std::vector<std::unique_ptr<Request>> requests_;
};

}  // namespace ublkd::mq_test
