#include "targets/fault/fault_queue.h"

namespace ublkd {

bool FaultRule::matches(const Request& rq) const {
  if (!ops[static_cast<std::size_t>(rq.op)]) return false;
  if (whole_device) return true;
  if (rq.op == Op::flush) return false;
  return rq.offset_bytes < end_bytes && rq.offset_bytes + rq.length_bytes > begin_bytes;
}

bool FaultQueue::judge(const Request& rq) {
  if (!rule_.matches(rq)) return false;
  ++matched_;
  if (matched_ % rule_.every != 0) return false;
  return rule_.count_max == 0 || failed_ < rule_.count_max;
}

void FaultQueue::pass(RequestList& run) {
  if (run.empty()) return;
  inner_->queue_rqs(run);
  for (const Request* rq = run.front(); rq != nullptr; rq = rq->next)
    if (rule_.matches(*rq)) --matched_;
}

void FaultQueue::queue_rqs(RequestList& list) {
  RequestList run;  // judged, and not to fail
  while (!list.empty()) {
    Request& rq = list.pop_front();
    if (!judge(rq)) {
      run.push_back(rq);
      continue;
    }
    pass(run);
    if (!run.empty()) {  // those before rq go first: rq is judged again, too
      --matched_;
      list.push_front(rq);
      list.splice_front(run);
      return;
    }
    ++failed_;
    port_.complete(rq, rule_.error);
  }
  pass(run);
  list.splice_back(run);
}

}  // namespace ublkd
