// ScriptedTarget: an inner target for tests of wrappers. Takes as many requests as it is told to,
// remembers their order, completes them when the test says so.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "ublkd/target.h"

namespace ublkd {

struct ScriptedState {
  std::uint32_t accept_max = ~std::uint32_t{0};  // per call
  std::vector<Request*> taken;                   // in order, all calls
  std::vector<Request*> aborted;
  std::uint32_t calls = 0;
  std::uint32_t deadlines = 0;
  std::uint64_t wake_ns = 0;  // asked again in each on_deadline; 0: none
};

class ScriptedQueue final : public TargetQueue {
 public:
  ScriptedQueue(QueuePort& port, ScriptedState& state) : port_(port), state_(state) {}

  void queue_rqs(RequestList& list) override {
    ++state_.calls;
    for (std::uint32_t n = 0; n < state_.accept_max && !list.empty(); ++n) {
      Request& rq = list.pop_front();
      std::fill(std::begin(rq.scratch), std::end(rq.scratch), ~std::uint64_t{0});  // ours now
      state_.taken.push_back(&rq);
    }
  }
  void on_cqe(Request& rq, std::uint8_t, std::int32_t result) override { port_.complete(rq, result); }
  void on_deadline() override {
    ++state_.deadlines;
    if (state_.wake_ns != 0) port_.wake_at(state_.wake_ns);
  }
  void abort(Request& rq) override { state_.aborted.push_back(&rq); }

 private:
  QueuePort& port_;
  ScriptedState& state_;
};

}  // namespace ublkd
