// null: sizes at the edges, zeroes, leftovers.
#include "targets/null/null_target.h"

#include <gtest/gtest.h>

#include <cstring>

#include "targets/null/one_by_one.h"
#include "tests/fakes/fake_port.h"
#include "tests/fakes/requests.h"
#include "ublkd/units.h"

namespace ublkd {
namespace {

Result<std::unique_ptr<Target>> open_null(std::uint64_t size, std::uint32_t block = 0,
                                          std::uint64_t accept_max = 0) {
  OptionValues options;
  options.set("size", size);
  options.set("accept_max", accept_max);
  OpenContext context;
  context.logical_block_bytes = block;
  return null_target_type().open(options, context);
}

TEST(NullTargetTest, SizesAtTheEdges) {
  EXPECT_FALSE(open_null(0));
  EXPECT_FALSE(open_null(511));
  EXPECT_FALSE(open_null(std::uint64_t{1} << 63));
  EXPECT_FALSE(open_null(~std::uint64_t{0} - 511));
  for (const std::uint64_t size : {std::uint64_t{512}, device_bytes_max}) {
    const auto target = open_null(size);
    ASSERT_TRUE(target);
    EXPECT_EQ((*target)->geometry().size_bytes, size);
  }
}

TEST(NullTargetTest, SizeIsRoundedDownToTheBlock) {
  const auto target = open_null(4096 + 512, 4096);
  ASSERT_TRUE(target);
  EXPECT_EQ((*target)->geometry().size_bytes, 4096u);
  EXPECT_FALSE(open_null(512, 4096));
  EXPECT_FALSE(open_null(4096, 513));
}

TEST(NullTargetTest, ReadZeroesWhatAWriteMayHaveLeft) {
  std::vector<std::byte> data(8192, std::byte{7});
  FakePort port;
  Requests requests;
  const auto target = open_null(65536);
  ASSERT_TRUE(target);
  auto queue = *(*target)->open_queue(port);
  Request& rq = requests.make(Op::read, 0, 4096, data.data());
  rq.dirty_bytes = 6000;
  RequestList list = list_of({&rq});
  queue->queue_rqs(list);
  EXPECT_EQ(data[4095], std::byte{0});
  EXPECT_EQ(data[4096], std::byte{7});  // not ours
  EXPECT_EQ(rq.dirty_bytes, 6000u);
  port.take_done();
  rq.state = RequestState::started;
  rq.length_bytes = 8192;
  list = list_of({&rq});
  queue->queue_rqs(list);
  EXPECT_EQ(data[5999], std::byte{0});
  EXPECT_EQ(data[6000], std::byte{7});  // zero already, says dirty_bytes
  EXPECT_EQ(rq.dirty_bytes, 0u);
}

TEST(NullTargetTest, LeavesTheRestInOrder) {
  FakePort port;
  Requests requests;
  const auto target = open_null(65536, 0, 2);
  ASSERT_TRUE(target);
  auto queue = *(*target)->open_queue(port);
  Request* rqs[5];
  RequestList list;
  for (Request*& rq : rqs) list.push_back(*(rq = &requests.make(Op::write)));
  queue->queue_rqs(list);
  EXPECT_EQ(port.take_done(), (std::vector<Request*>{rqs[0], rqs[1]}));
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list.front(), rqs[2]);
  queue->queue_rqs(list);
  queue->queue_rqs(list);
  EXPECT_EQ(port.take_done(), (std::vector<Request*>{rqs[2], rqs[3], rqs[4]}));
  EXPECT_TRUE(list.empty());
}

// Notes the size of each list and takes the first `room` requests it sees.
class NotingQueue final : public TargetQueue {
 public:
  NotingQueue(std::vector<std::uint32_t>& sizes, std::uint32_t room) : sizes_(sizes), room_(room) {}
  void queue_rqs(RequestList& list) override {
    sizes_.push_back(list.size());
    for (; room_ > 0 && !list.empty(); --room_) list.pop_front();
  }
  void on_cqe(Request&, std::uint8_t, std::int32_t) override {}
  void abort(Request&) override {}

 private:
  std::vector<std::uint32_t>& sizes_;
  std::uint32_t room_;
};

TEST(NullTargetTest, OneByOneHandsOnListsOfOneAndKeepsTheRestInOrder) {
  std::vector<std::uint32_t> sizes;
  OneByOneQueue queue(std::make_unique<NotingQueue>(sizes, 2));
  Requests requests;
  Request* rqs[4];
  RequestList list;
  for (Request*& rq : rqs) list.push_back(*(rq = &requests.make(Op::write)));
  queue.queue_rqs(list);
  EXPECT_EQ(sizes, (std::vector<std::uint32_t>{1, 1, 1}));
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(&list.pop_front(), rqs[2]);
  EXPECT_EQ(&list.pop_front(), rqs[3]);
}

TEST(NullTargetTest, OneByOneServesAllAndIsRefusedWithAcceptMax) {
  OptionValues options;
  options.set("size", std::uint64_t{65536});
  options.set("one_by_one", true);
  const auto target = null_target_type().open(options, {});
  ASSERT_TRUE(target);
  FakePort port;
  Requests requests;
  auto queue = *(*target)->open_queue(port);
  RequestList list = list_of({&requests.make(Op::write), &requests.make(Op::write)});
  queue->queue_rqs(list);
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(port.take_done().size(), 2u);
  options.set("accept_max", std::uint64_t{3});
  EXPECT_FALSE(null_target_type().open(options, {}));
}

TEST(NullTargetTest, OpsOfAReadOnlyDevice) {
  OptionValues options;
  options.set("size", std::uint64_t{65536});
  OpenContext context;
  context.read_only = true;
  const auto target = null_target_type().open(options, context);
  ASSERT_TRUE(target);
  EXPECT_TRUE((*target)->geometry().read_only);
  EXPECT_EQ((*target)->geometry().discard_bytes_max, 0u);
}

}  // namespace
}  // namespace ublkd
