#include "targets/null/one_by_one.h"

namespace ublkd {

void OneByOneQueue::queue_rqs(RequestList& list) {
  while (!list.empty()) {
    RequestList one;
    one.push_back(list.pop_front());
    below_->queue_rqs(one);
    if (one.empty()) continue;
    list.splice_front(one);
    return;
  }
}

}  // namespace ublkd
