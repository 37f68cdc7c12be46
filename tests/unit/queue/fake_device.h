// FakeDevice: the data path on a real ring and thread, without a driver: /dev/null answers every ublk command at
// once with 0, so each commit comes back as the next request of its slot; the descriptors are ours.
// To end a device, a file that knows no commands takes the descriptor's place.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "queue/hw_queue.h"
#include "targets/null/null_target.h"
#include "ublkd/target.h"

namespace ublkd::queue_test {

inline constexpr std::uint32_t slots = 32;

inline Result<std::unique_ptr<Target>> null_target(std::uint64_t accept_max = 0) {
  OptionValues options;
  options.set("size", std::uint64_t{1} << 30);
  options.set("accept_max", accept_max);
  return null_target_type().open(options, OpenContext{.device_name = "test"});
}

// One device queue whose kernel is /dev/null.
class FakeDevice {
 public:
  FakeDevice(HwQueue& hw, std::uint64_t accept_max = 0) : hw_(hw), descs_(slots) {
    for (std::uint32_t i = 0; i < slots; ++i) descs_[i] = {abi::io_op_read, 8, i * 8, 0};
    target_ = std::move(*null_target(accept_max));
    node_ = Fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
    DeviceQueueSpec spec{
        .slots = slots, .ublkc_fd = node_.get(), .descs = descs_.data(), .geometry = target_->geometry()};
    queue_ = std::move(*DeviceQueue::make(hw, spec));
    queue_->set_target(std::move(*target_->open_queue(*queue_)));
  }
  abi::IoDesc& desc(std::uint32_t slot) { return descs_[slot]; }
  DeviceQueue& queue() { return *queue_; }

  Result<void> attach() {
    if (auto r = hw_.reserve(*queue_); !r) return r;
    std::promise<Result<void>> done;
    hw_.attach(
        *queue_, [&](Result<void> r) { done.set_value(std::move(r)); },
        [this](std::int32_t error) { ended_.set_value(error); });
    return done.get_future().get();
  }
  void await_reads(std::uint64_t count) {
    while (queue_->ops(Op::read).count.get() < count) std::this_thread::yield();
  }
  // The kernel stops answering: every command comes back with an error.
  std::int32_t end() {
    Fd other(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
    EXPECT_GE(::dup3(other.get(), node_.get(), O_CLOEXEC), 0);
    const std::int32_t error = ended_.get_future().get();
    hw_.release(*queue_);
    return error;
  }

 private:
  HwQueue& hw_;
  std::vector<abi::IoDesc> descs_;
  std::unique_ptr<Target> target_;
  Fd node_;
  std::unique_ptr<DeviceQueue> queue_;
  std::promise<std::int32_t> ended_;
};

class HwQueueTest : public testing::Test {
 protected:
  void SetUp() override {
    auto hw = HwQueue::start({.set_name = "test", .depth = 16, .slots_total_max = 128, .files_max = 16});
    if (!hw) GTEST_SKIP() << hw.error().text();
    hw_ = std::move(*hw);
    if (!null_takes_commands()) GTEST_SKIP() << "this kernel's /dev/null takes no io_uring commands";
  }
  static bool null_takes_commands() {
    auto ring = Ring::make({});
    if (!ring) return false;
    Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    io_uring_sqe* e = ring->sqe();
    e->opcode = IORING_OP_URING_CMD;
    e->fd = null.get();
    std::int32_t result = -1;
    (void)ring->enter(1, 0, time_never_ns);
    ring->for_each_cqe([&](const io_uring_cqe& cqe) { result = cqe.res; });
    return result == 0;
  }
  std::unique_ptr<HwQueue> hw_;
};

}  // namespace ublkd::queue_test
