// DelayQueue: holds requests until their time has come, then hands them down in order of that time.
//
//   queue_rqs -> held_[op] -- time has come --> ready_ -- inner takes it --> inner queue
//                   |                             |
//                   +----------- abort -----------+--> completed with -EIO
//
// Thread rule: its hardware queue's thread.
// Invariants:
//   1. Each held_ list is in order of deadline: one op has one delay, and time does not go back.
//   2. scratch is ours in held_ only: {deadline, order of arrival here}.
//   3. While a request is held or ready, a wake-up for it has been asked since the last on_deadline.
#pragma once

#include <array>
#include <memory>

#include "ublkd/target.h"

namespace ublkd {

using OpDelays = std::array<std::uint64_t, op_count>;  // ns, by Op

class DelayQueue final : public TargetQueue {
 public:
  static constexpr std::uint64_t retry_ns = 1'000'000;  // as the engine does with leftovers

  DelayQueue(QueuePort& port, std::unique_ptr<TargetQueue> inner, const OpDelays& delays)
      : port_(port), inner_(std::move(inner)), delays_(delays) {}

  void queue_rqs(RequestList& list) override;
  void on_cqe(Request& rq, std::uint8_t step, std::int32_t result) override;
  void on_deadline() override;
  void abort(Request& rq) override;

 private:
  // The list whose front is due first and due by now; null when none is.
  [[nodiscard]] RequestList* next_due();
  // Moves what is due to ready_, offers ready_ to the inner queue, asks for the next wake-up.
  void run();

  QueuePort& port_;
  std::unique_ptr<TargetQueue> inner_;
  const OpDelays delays_;
  std::array<RequestList, op_count> held_;
  RequestList ready_;
  std::uint64_t arrivals_ = 0;
};

}  // namespace ublkd
