// FaultQueue: decides request by request, in list order, which fail and which go down.
//
// Thread rule: its hardware queue's thread.
// Invariants:
//   1. A request is counted once: when it fails or when the inner queue took it. A leftover is
//      uncounted, so that it is judged again when it is offered again.
//   2. A request is judged only after all before it were failed or taken: list order is kept.
#pragma once

#include <array>
#include <cerrno>
#include <memory>

#include "ublkd/target.h"

namespace ublkd {

struct FaultRule {
  std::array<bool, op_count> ops{};
  std::int32_t error = -EIO;
  std::uint64_t every = 1;      // >= 1
  std::uint64_t count_max = 0;  // 0: no end
  bool whole_device = true;
  std::uint64_t begin_bytes = 0;
  std::uint64_t end_bytes = ~std::uint64_t{0};

  [[nodiscard]] bool matches(const Request& rq) const;
};

class FaultQueue final : public TargetQueue {
 public:
  FaultQueue(QueuePort& port, std::unique_ptr<TargetQueue> inner, const FaultRule& rule)
      : port_(port), inner_(std::move(inner)), rule_(rule) {}

  void queue_rqs(RequestList& list) override;
  void on_cqe(Request& rq, std::uint8_t step, std::int32_t result) override {
    inner_->on_cqe(rq, step, result);
  }
  void on_deadline() override { inner_->on_deadline(); }
  void abort(Request& rq) override { inner_->abort(rq); }

 private:
  // Counts rq if it matches; true when it is to fail.
  [[nodiscard]] bool judge(const Request& rq);
  // Hands run to the inner queue; what that leaves is uncounted and stays in run.
  void pass(RequestList& run);

  QueuePort& port_;
  std::unique_ptr<TargetQueue> inner_;
  const FaultRule rule_;
  std::uint64_t matched_ = 0;
  std::uint64_t failed_ = 0;
};

}  // namespace ublkd
