#include "targets/delay/delay_queue.h"

#include <algorithm>
#include <cerrno>

namespace ublkd {

namespace {

std::uint64_t& deadline_of(Request& rq) {
  return rq.scratch[0];
}
std::uint64_t& arrival_of(Request& rq) {
  return rq.scratch[1];
}

bool before(Request& a, Request& b) {
  if (deadline_of(a) != deadline_of(b)) return deadline_of(a) < deadline_of(b);
  return arrival_of(a) < arrival_of(b);
}

// Takes rq out of list; false when it is not there.
bool unlink(RequestList& list, const Request& rq) {
  RequestList rest;
  const std::uint32_t before_count = list.size();
  while (!list.empty()) {
    Request& one = list.pop_front();
    if (&one != &rq) rest.push_back(one);
  }
  list = rest;
  return list.size() != before_count;
}

}  // namespace

RequestList* DelayQueue::next_due() {
  RequestList* first = nullptr;
  for (RequestList& list : held_)
    if (!list.empty() && (first == nullptr || before(*list.front(), *first->front()))) first = &list;
  if (first == nullptr || deadline_of(*first->front()) > port_.now_ns()) return nullptr;
  return first;
}

void DelayQueue::run() {
  while (RequestList* due = next_due()) ready_.push_back(due->pop_front());
  if (!ready_.empty()) inner_->queue_rqs(ready_);
  std::uint64_t wake_ns = ready_.empty() ? time_never_ns : port_.now_ns() + retry_ns;
  for (RequestList& list : held_)
    if (!list.empty()) wake_ns = std::min(wake_ns, deadline_of(*list.front()));
  if (wake_ns != time_never_ns) port_.wake_at(wake_ns);
}

void DelayQueue::queue_rqs(RequestList& list) {
  while (!list.empty()) {
    Request& rq = list.pop_front();
    const auto op = static_cast<std::size_t>(rq.op);
    deadline_of(rq) = port_.now_ns() + delays_[op];
    arrival_of(rq) = arrivals_++;
    held_[op].push_back(rq);
  }
  run();
}

void DelayQueue::on_cqe(Request& rq, std::uint8_t step, std::int32_t result) {
  inner_->on_cqe(rq, step, result);
  if (!ready_.empty()) run();  // the inner queue may have room again
}

void DelayQueue::on_deadline() {
  inner_->on_deadline();
  run();
}

void DelayQueue::abort(Request& rq) {
  if (unlink(held_[static_cast<std::size_t>(rq.op)], rq) || unlink(ready_, rq))
    port_.complete(rq, -EIO);
  else
    inner_->abort(rq);
}

}  // namespace ublkd
