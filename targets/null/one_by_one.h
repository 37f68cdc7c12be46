// OneByOneQueue: hands each list on as lists of one, by a call each: what a target without queue_rqs would see.
//
// For measuring only: the difference to the queue below it is what one call for a list is worth. It leaves nothing
// behind that the queue below takes; what that leaves stays at the front of the list, in order.
//
// Thread rule: as TargetQueue. Ownership: owns the queue below.
#pragma once

#include <memory>

#include "ublkd/target.h"

namespace ublkd {

class OneByOneQueue final : public TargetQueue {
 public:
  explicit OneByOneQueue(std::unique_ptr<TargetQueue> below) : below_(std::move(below)) {}

  void queue_rqs(RequestList& list) override;
  void on_cqe(Request& rq, std::uint8_t step, std::int32_t result) override { below_->on_cqe(rq, step, result); }
  void on_deadline() override { below_->on_deadline(); }
  void abort(Request& rq) override { below_->abort(rq); }

 private:
  std::unique_ptr<TargetQueue> below_;
};

}  // namespace ublkd
