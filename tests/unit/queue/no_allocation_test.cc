// Nothing on the data path allocates: this program counts every operator new of each thread.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <future>
#include <new>

#include "unit/queue/fake_device.h"

namespace {
thread_local std::uint64_t allocations = 0;

void* counted(std::size_t bytes) {
  ++allocations;
  void* p = std::malloc(bytes);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

namespace ublkd::queue_test {
namespace {

std::uint64_t allocations_of(HwQueue& hw) {
  std::promise<std::uint64_t> count;
  hw.post([&count] { count.set_value(allocations); });
  return count.get_future().get();
}

TEST_F(HwQueueTest, TheDataPathDoesNotAllocate) {
  FakeDevice plain(*hw_), with_leftovers(*hw_, 3);
  ASSERT_TRUE(plain.attach().has_value());
  ASSERT_TRUE(with_leftovers.attach().has_value());
  (void)allocations_of(*hw_);  // answering allocates in the promise's shared state on either thread
  const std::uint64_t before = allocations_of(*hw_);
  const std::uint64_t between = allocations_of(*hw_) - before;
  const std::uint64_t seen = with_leftovers.queue().ops(Op::read).count.get();
  with_leftovers.await_reads(seen + 5000);
  EXPECT_EQ(allocations_of(*hw_) - before, 2 * between) << "more than asking costs";
  plain.end();
  with_leftovers.end();
}

TEST(AllocationCounter, Counts) {
  const std::uint64_t before = allocations;
  delete new int;
  EXPECT_EQ(allocations, before + 1);
}

}  // namespace
}  // namespace ublkd::queue_test
