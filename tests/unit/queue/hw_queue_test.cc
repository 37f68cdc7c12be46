#include "queue/hw_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "unit/queue/fake_device.h"

namespace ublkd::queue_test {
namespace {

TEST_F(HwQueueTest, ServesOneDevice) {
  FakeDevice device(*hw_);
  ASSERT_TRUE(device.attach().has_value());
  device.await_reads(1000);
  EXPECT_EQ(device.end(), -EOPNOTSUPP);
  EXPECT_EQ(device.queue().tags_taken.get(), device.queue().tags_put.get());
  EXPECT_EQ(device.queue().held, 0u);
  EXPECT_EQ(hw_->snapshot().free, 16u);
  EXPECT_EQ(hw_->snapshot().devices, 0u);
}

TEST_F(HwQueueTest, TwoDevicesShareTheTagsAndBothGoOn) {
  FakeDevice a(*hw_), b(*hw_, 3);
  ASSERT_TRUE(a.attach().has_value());
  ASSERT_TRUE(b.attach().has_value());
  a.await_reads(500);
  b.await_reads(500);
  EXPECT_EQ(a.end(), -EOPNOTSUPP);
  const std::uint64_t seen = b.queue().ops(Op::read).count.get();
  b.await_reads(seen + 100);
  b.end();
  EXPECT_LE(a.queue().peak.get(), 16u);
  EXPECT_GT(b.queue().leftovers.get(), 0u);
}

TEST_F(HwQueueTest, DevicesComeAndGoWhileAnotherIsServed) {
  FakeDevice stays(*hw_);
  ASSERT_TRUE(stays.attach().has_value());
  for (int i = 0; i < 20; ++i) {
    FakeDevice passing(*hw_);
    ASSERT_TRUE(passing.attach().has_value()) << "round " << i;
    passing.await_reads(10);
    passing.end();
  }
  const std::uint64_t seen = stays.queue().ops(Op::read).count.get();
  stays.await_reads(seen + 100);
  stays.end();
}

TEST_F(HwQueueTest, MalformedDescriptorsAreAnsweredWithoutATag) {
  FakeDevice device(*hw_);
  const Geometry g = (*null_target())->geometry();
  device.desc(0) = {abi::io_op_read, 0, 0, 0};                                     // no length
  device.desc(1) = {abi::io_op_read, 8, (g.size_bytes >> sector_shift) - 7, 0};    // beyond the end
  device.desc(2) = {abi::io_op_read, (g.io_bytes_max >> sector_shift) + 8, 0, 0};  // too long
  device.desc(3) = {4, 8, 0, 0};                                                   // write same
  device.desc(4) = {77, 8, 0, 0};                                                  // no such op
  device.desc(5) = {abi::io_op_read, ~0u, 0, 0};
  ASSERT_TRUE(device.attach().has_value());
  while (device.queue().ops(Op::read).errors.get() < 100) std::this_thread::yield();
  device.end();
  const auto& ops = device.queue().ops(Op::read);
  EXPECT_LT(ops.errors.get(), ops.count.get());
  EXPECT_EQ(ops.bytes.get() % 4096, 0u);
  EXPECT_EQ(device.queue().tags_taken.get(), device.queue().tags_put.get());
}

TEST_F(HwQueueTest, AFailedDeviceAnswersEverythingWithAnError) {
  FakeDevice device(*hw_);
  ASSERT_TRUE(device.attach().has_value());
  device.await_reads(100);
  hw_->fail_device(device.queue());
  while (device.queue().ops(Op::read).errors.get() < 100) std::this_thread::yield();
  device.end();
}

TEST_F(HwQueueTest, SlotsThatDoNotFitAreRefusedWithTheNumber) {
  std::vector<std::unique_ptr<FakeDevice>> devices;
  for (int i = 0; i < 4; ++i) {
    devices.push_back(std::make_unique<FakeDevice>(*hw_));
    ASSERT_TRUE(devices.back()->attach().has_value());
  }
  FakeDevice fifth(*hw_);
  const auto refused = fifth.attach();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::limit);
  EXPECT_NE(refused.error().text().find("slots_total_max"), std::string::npos);
  for (auto& d : devices) d->end();
}

TEST_F(HwQueueTest, MessagesOfManyThreadsAllRun) {
  std::atomic<int> ran = 0;
  constexpr int threads = 4, each = 500;
  std::vector<std::thread> posters;
  for (int t = 0; t < threads; ++t)
    posters.emplace_back([&] {
      for (int i = 0; i < each; ++i) hw_->post([&] { ran.fetch_add(1, std::memory_order_relaxed); });
    });
  for (auto& t : posters) t.join();
  std::promise<void> last;
  hw_->post([&] { last.set_value(); });
  last.get_future().wait();
  EXPECT_EQ(ran.load(), threads * each);
}

TEST(HwQueueStart, SaysWhyItCannotBePinned) {
  auto hw = HwQueue::start({.set_name = "test", .depth = 4, .slots_total_max = 4, .cpus = {1023}});
  ASSERT_FALSE(hw.has_value());
  EXPECT_NE(hw.error().text().find("CPUs"), std::string::npos);
}

}  // namespace
}  // namespace ublkd::queue_test
