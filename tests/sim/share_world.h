// ShareWorld: tenants in virtual time on one dispatcher. Each keeps a number of requests outstanding, as a client with
// that queue depth does; a request holds its tag for the tenant's service time. No kernel, no thread, no clock.
//
// After every step the invariants of the dispatcher are checked, and: no request completes with another's tag.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <queue>
#include <vector>

#include "mq/dispatcher.h"

namespace ublkd::sim {

inline constexpr std::uint64_t us = 1000;
inline constexpr std::uint64_t ms = 1000 * us;
inline constexpr std::uint64_t second = 1000 * ms;

struct TenantSpec {
  std::uint32_t depth = 1;      // requests outstanding while it is on
  std::uint32_t weight = 1;
  std::uint64_t service_ns = ms;
  std::uint64_t think_ns = 2 * us;    // from a completion to the next request
  std::uint64_t start_ns = 0;
  std::uint64_t stop_ns = time_never_ns;  // no new requests from here on
  std::uint64_t on_ns = time_never_ns;    // flapping: on for this long ...
  std::uint64_t off_ns = 0;               // ... then off
  std::uint32_t accept = ~0u;   // requests its target takes per call
  std::uint32_t error_every = 0;  // every n-th request fails; 0: none
};

class ShareWorld;

class Tenant final : public TargetQueue {
 public:
  Tenant(ShareWorld& world, const TenantSpec& s) : spec(s), world_(world) {
    state.target = this;
    state.share.weight = s.weight;
  }
  void queue_rqs(RequestList& list) override;
  void on_cqe(Request&, std::uint8_t, std::int32_t) override {}
  void abort(Request& rq) override;

  [[nodiscard]] bool on(std::uint64_t now_ns) const {
    if (now_ns < spec.start_ns || now_ns >= spec.stop_ns) return false;
    if (spec.on_ns == time_never_ns) return true;
    return (now_ns - spec.start_ns) % (spec.on_ns + spec.off_ns) < spec.on_ns;
  }

  TenantSpec spec;
  DeviceState state;
  std::uint64_t completed = 0;
  std::uint64_t last_completion_ns = 0;
  std::uint64_t gap_max_ns = 0;                // between two completions
  std::vector<std::uint64_t> latencies_ns;     // from arrival to completion, when kept
  bool keep_latencies = false;

 private:
  ShareWorld& world_;
};

class ShareWorld {
 public:
  ShareWorld(std::uint32_t depth, const ShareParams& params, std::vector<TenantSpec> specs)
      : dispatcher(depth), params_(params) {
    dispatcher.configure(params);
    for (const TenantSpec& spec : specs) {
      const auto i = static_cast<std::uint32_t>(tenants_.size());
      tenants_.push_back(std::make_unique<Tenant>(*this, spec));
      dispatcher.add(tenants_.back()->state);
      for (std::uint32_t n = 0; n < spec.depth; ++n) {
        requests_.push_back(std::make_unique<Request>());
        requests_.back()->owner = &tenants_.back()->state;
        requests_.back()->index = i;
        events_.push({spec.start_ns, sequence_++, Event::arrive, requests_.back().get(), 0});
      }
    }
  }

  // Runs until virtual time until_ns.
  void run(std::uint64_t until_ns) {
    while (!testing::Test::HasFatalFailure()) {
      std::uint64_t at = std::min(dispatcher.wake_ns(), events_.empty() ? time_never_ns : events_.top().at_ns);
      at = std::max(at, now_ns);
      if (at >= until_ns) break;
      now_ns = at;
      step();
    }
    now_ns = std::max(now_ns, until_ns);
  }

  Tenant& tenant(std::size_t i) { return *tenants_[i]; }
  std::size_t tenants() const { return tenants_.size(); }

  // Tags held times time since the last call, per tenant, in tags (a mean over the time between).
  std::vector<double> mean_held() {
    std::vector<double> out;
    for (const auto& t : tenants_) {
      const std::uint64_t total = t->state.tag_time_ns.get() + t->state.held * (now_ns - t->state.touched_ns.get());
      held_before_.resize(tenants_.size());
      out.push_back(static_cast<double>(total - held_before_[out.size()]) / static_cast<double>(now_ns - held_at_ns_));
      held_before_[out.size() - 1] = total;
    }
    held_at_ns_ = now_ns;
    return out;
  }

  std::vector<std::uint64_t> completed() const {
    std::vector<std::uint64_t> out;
    for (const auto& t : tenants_) out.push_back(t->completed);
    return out;
  }

  // All requests of one tenant are ended at once: what is waiting fails, what is in flight is aborted.
  void fail(std::size_t i) {
    Tenant& t = *tenants_[i];
    RequestList waiting = dispatcher.take_waiting(t.state);
    for (Request* rq = waiting.front(); rq != nullptr; rq = rq->next) rq->state = RequestState::done;
    reaped_.splice_back(waiting);
    for (std::uint32_t tag = 0; tag < dispatcher.pool().depth(); ++tag) {
      Request* rq = dispatcher.inflight().at(Tag(static_cast<std::uint16_t>(tag)));
      if (rq != nullptr && rq->owner == &t.state && rq->state == RequestState::started) t.abort(*rq);
    }
    turn();
  }

  // Aborts what is older than its deadline, as the scanner on another thread asks for.
  std::uint32_t end_expired() {
    std::vector<std::pair<Tag, std::uint32_t>> found;
    dispatcher.inflight().scan(now_ns, [&](Tag tag, std::uint32_t mark) { found.emplace_back(tag, mark); });
    std::uint32_t ended = 0;
    for (auto [tag, mark] : found) {
      Request* rq = dispatcher.inflight().find(tag, mark);
      if (rq == nullptr || rq->state != RequestState::started) continue;
      tenants_[rq->index]->abort(*rq);
      ++ended;
    }
    turn();
    return ended;
  }

  void leave(std::size_t i) { dispatcher.remove(tenants_[i]->state); }
  void rejoin(std::size_t i) { dispatcher.add(tenants_[i]->state); }

  Dispatcher dispatcher;
  std::uint64_t now_ns = 0;
  std::uint64_t steps = 0;

 private:
  friend class Tenant;
  struct Event {
    enum Kind : std::uint8_t { arrive, complete };
    std::uint64_t at_ns;
    std::uint64_t sequence;
    Kind kind;
    Request* rq;
    std::uint64_t start;  // complete: which start of the request is meant
    bool operator<(const Event& o) const { return at_ns != o.at_ns ? at_ns > o.at_ns : sequence > o.sequence; }
  };

  void step() {
    ++turn_;
    while (!events_.empty() && events_.top().at_ns <= now_ns) {
      const Event e = events_.top();
      events_.pop();
      if (e.kind == Event::arrive)
        arrive(*e.rq);
      else if (e.rq->state == RequestState::started && e.rq->scratch[0] == e.start)
        finish(*e.rq, 0);
    }
    turn();
  }

  void turn() {
    ++steps;
    dispatcher.dispatch(done_, reaped_, now_ns);
    while (!reaped_.empty()) end(reaped_.pop_front());
    check();
  }

  void arrive(Request& rq) {
    Tenant& t = *tenants_[rq.index];
    if (!t.on(now_ns)) return sleep(rq, t);
    rq.state = RequestState::arrived;
    rq.order = turn_;
    rq.arrived_ns = now_ns;
    rq.error = 0;
    dispatcher.arrive(t.state, rq);
  }

  // A tenant that is off asks again when it is on.
  void sleep(Request& rq, const Tenant& t) {
    if (now_ns >= t.spec.stop_ns) return;
    const std::uint64_t period = t.spec.on_ns + t.spec.off_ns;
    const std::uint64_t at =
        now_ns < t.spec.start_ns ? t.spec.start_ns
                                 : t.spec.start_ns + ((now_ns - t.spec.start_ns) / period + 1) * period;
    events_.push({at, sequence_++, Event::arrive, &rq, 0});
  }

  void finish(Request& rq, std::int32_t error) {
    ASSERT_EQ(dispatcher.inflight().at(rq.tag), &rq) << "a request completes with its own tag";
    rq.state = RequestState::done;
    rq.error = error;
    done_.push_back(rq);
  }

  void end(Request& rq) {
    Tenant& t = *tenants_[rq.index];
    ASSERT_EQ(rq.tag, tag_none);
    rq.state = RequestState::idle;
    ++t.completed;
    if (t.last_completion_ns != 0) t.gap_max_ns = std::max(t.gap_max_ns, now_ns - t.last_completion_ns);
    t.last_completion_ns = now_ns;
    if (t.keep_latencies) t.latencies_ns.push_back(now_ns - rq.arrived_ns);
    events_.push({now_ns + t.spec.think_ns, sequence_++, Event::arrive, &rq, 0});
  }

  void check() {
    const TagPool& pool = dispatcher.pool();
    std::uint32_t held = 0, waiting = 0;
    bool may_stay_free = dispatcher.share().wake_ns() != time_never_ns;
    for (const auto& t : tenants_) {
      held += t->state.held;
      waiting += t->state.waiting.size();
      ASSERT_EQ(t->state.tags_taken.get() - t->state.tags_put.get(), t->state.held);
      ASSERT_TRUE(may_stay_free || pool.free() == 0 || t->state.waiting.empty() || t->state.declined);
    }
    ASSERT_EQ(held, pool.depth() - pool.free());
    ASSERT_EQ(waiting, dispatcher.waiting());
    ASSERT_TRUE(waiting == 0 || pool.free() == 0 || dispatcher.wake_ns() != time_never_ns) << "a lost wake-up";
    ASSERT_GT(dispatcher.wake_ns(), now_ns) << "a wake-up that is due again at once";
  }

  ShareParams params_;
  std::vector<std::unique_ptr<Tenant>> tenants_;
  std::vector<std::unique_ptr<Request>> requests_;
  std::priority_queue<Event> events_;
  std::uint64_t sequence_ = 0;
  std::uint64_t starts_ = 0;
  std::uint32_t turn_ = 0;
  RequestList done_, reaped_;
  std::vector<std::uint64_t> held_before_;
  std::uint64_t held_at_ns_ = 0;
};

inline void Tenant::queue_rqs(RequestList& list) {
  for (std::uint32_t n = 0; n < spec.accept && !list.empty(); ++n) {
    Request& rq = list.pop_front();
    rq.scratch[0] = ++world_.starts_;
    if (spec.service_ns == 0)
      world_.finish(rq, 0);
    else
      world_.events_.push({world_.now_ns + spec.service_ns, world_.sequence_++, ShareWorld::Event::complete, &rq,
                           rq.scratch[0]});
  }
}

inline void Tenant::abort(Request& rq) { world_.finish(rq, -5); }

}  // namespace ublkd::sim
