// Requests for tests of target queues: made, started and listed without an engine.
#pragma once

#include <deque>
#include <initializer_list>

#include "ublkd/request.h"

namespace ublkd {

class Requests {
 public:
  Request& make(Op op, std::uint64_t offset_bytes = 0, std::uint32_t length_bytes = 4096,
                std::byte* data = nullptr) {
    Request& rq = all_.emplace_back();
    rq.index = static_cast<std::uint32_t>(all_.size());
    rq.tag = static_cast<Tag>(all_.size());
    rq.op = op;
    rq.offset_bytes = offset_bytes;
    rq.length_bytes = op == Op::flush ? 0 : length_bytes;
    rq.data = data;
    rq.state = RequestState::started;
    return rq;
  }

 private:
  std::deque<Request> all_;
};

inline RequestList list_of(std::initializer_list<Request*> requests) {
  RequestList list;
  for (Request* rq : requests) list.push_back(*rq);
  return list;
}

}  // namespace ublkd
