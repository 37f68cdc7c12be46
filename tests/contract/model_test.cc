// The model checker is itself checked: it must see a block that was not written.
#include "tests/contract/model.h"

#include <gtest/gtest.h>

#include "tests/contract/target_cases.h"

namespace ublkd {
namespace {

// Says yes to one write and drops it.
class LosingQueue final : public TargetQueue {
 public:
  static constexpr int lost_write = 40;

  LosingQueue(QueuePort& port, std::unique_ptr<TargetQueue> inner) : port_(port), inner_(std::move(inner)) {}
  void queue_rqs(RequestList& list) override {
    RequestList kept;
    while (!list.empty()) {
      Request& rq = list.pop_front();
      if (rq.op == Op::write && ++writes_ == lost_write)
        port_.complete(rq, 0);
      else
        kept.push_back(rq);
    }
    inner_->queue_rqs(kept);
    list = kept;
  }
  void on_cqe(Request& rq, std::uint8_t step, std::int32_t result) override {
    inner_->on_cqe(rq, step, result);
  }
  void abort(Request& rq) override { inner_->abort(rq); }

 private:
  QueuePort& port_;
  std::unique_ptr<TargetQueue> inner_;
  int writes_ = 0;
};

class LosingTarget final : public Target {
 public:
  explicit LosingTarget(std::unique_ptr<Target> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] Geometry geometry() const override { return inner_->geometry(); }
  [[nodiscard]] std::vector<int> backing_fds() const override { return inner_->backing_fds(); }
  [[nodiscard]] Result<std::unique_ptr<TargetQueue>> open_queue(QueuePort& port) override {
    auto inner = inner_->open_queue(port);
    if (!inner) return inner;
    return std::make_unique<LosingQueue>(port, std::move(*inner));
  }

 private:
  std::unique_ptr<Target> inner_;
};

// With this seed some of the lost bytes are not written again before they are read.
TEST(ModelTest, SeesALostWrite) {
  TempDir dir;
  auto target = file_spec(dir.file("image", case_size_bytes)).open();
  ASSERT_TRUE(target) << target.error().text();
  auto rig = Rig::make(std::make_unique<LosingTarget>(std::move(*target)), FileNames::descriptors);
  if (!rig) GTEST_SKIP() << rig.error().text();
  constexpr std::uint64_t seed = 20;
  EXPECT_NE(check_model(**rig, Content::kept, seed, 200), "");
}

}  // namespace
}  // namespace ublkd
