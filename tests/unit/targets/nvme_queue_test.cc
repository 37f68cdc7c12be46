#include "targets/nvme/nvme_queue.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "abi/io_uring_extra.h"
#include "tests/fakes/fake_port.h"
#include "tests/fakes/requests.h"

namespace ublkd {
namespace {

constexpr std::uint64_t ms = 1'000'000;

class NvmeQueueTest : public ::testing::Test {
 protected:
  NvmeQueueTest() {
    service.nsid = 7;
    service.transfer_bytes_max = 128 * 1024;
    service.retries_max = 2;
    service.retry_time_ns = 100 * ms;
  }
  std::byte* memory(std::uint64_t address) { return reinterpret_cast<std::byte*>(address); }
  Request& start(Request& rq) {
    RequestList list = list_of({&rq});
    queue.queue_rqs(list);
    EXPECT_TRUE(list.empty());
    return rq;
  }
  [[nodiscard]] nvme_uring_cmd command(std::size_t i) const {
    nvme_uring_cmd cmd;
    std::memcpy(&cmd, port.entries().at(i).sqe->cmd, sizeof cmd);
    return cmd;
  }
  [[nodiscard]] nvme_uring_cmd last() const { return command(port.entries().size() - 1); }
  [[nodiscard]] static std::uint64_t lba(const nvme_uring_cmd& cmd) {
    return std::uint64_t{cmd.cdw11} << 32 | cmd.cdw10;
  }
  void answer(std::int32_t result) { port.answer(queue, result); }
  // The error of the only request that is done.
  std::int32_t ended() {
    const auto done = port.take_done();
    EXPECT_EQ(done.size(), 1u);
    return done.empty() ? 1 : done.front()->error;
  }
  [[nodiscard]] std::size_t commands() const { return port.entries().size(); }

  FakePort port{5};
  NvmeService service;
  NvmeEvents events;
  NvmeQueue queue{port, service, events};
  Requests requests;
};

TEST_F(NvmeQueueTest, OneRequestIsOneCommand) {
  start(requests.make(Op::read, 8192, 4096, memory(0x10000)));
  ASSERT_EQ(commands(), 1u);
  const io_uring_sqe& sqe = *port.last().sqe;
  EXPECT_EQ(sqe.opcode, IORING_OP_URING_CMD);
  EXPECT_EQ(sqe.fd, 5);
  EXPECT_EQ(sqe.cmd_op, NVME_URING_CMD_IO);
  EXPECT_EQ(sqe.rw_flags, 0);
  EXPECT_EQ(last().nsid, 7u);
  EXPECT_EQ(last().opcode, 2);
  EXPECT_EQ(lba(last()), 16u);
  EXPECT_EQ(last().cdw12, 7u);
  EXPECT_EQ(last().addr, 0x10000u);
  EXPECT_EQ(last().data_len, 4096u);
  answer(0);
  EXPECT_EQ(ended(), 0);
}

TEST_F(NvmeQueueTest, ARangeOfADriveWithLargeBlocks) {
  service.lba_shift = 12;
  service.begin_lba = std::uint64_t{1} << 33;
  Request& rq = requests.make(Op::write, 12288, 8192, memory(0x10000));
  rq.flags = request_flag::fua;
  start(rq);
  EXPECT_EQ(last().opcode, 1);
  EXPECT_EQ(lba(last()), (std::uint64_t{1} << 33) + 3);
  EXPECT_EQ(last().cdw12, 1u | 1u << 30);
}

TEST_F(NvmeQueueTest, A38_ZeroIsSuccessAndNoByteCount) {
  start(requests.make(Op::read, 0, 4096, memory(0x10000)));
  answer(4096);  // status type 0, code 0 with a flag: not a count
  EXPECT_TRUE(port.take_done().empty()) << "sent again, as a status without do not retry";
}

TEST_F(NvmeQueueTest, ALargeRequestIsSplitByTheDrivesLimit) {
  start(requests.make(Op::write, 0, 300 * 1024, memory(0x100000)));
  std::uint32_t bytes = 0;
  for (const std::uint32_t want : {128u * 1024, 128u * 1024, 44u * 1024}) {
    EXPECT_EQ(last().data_len, want);
    EXPECT_EQ(last().addr, 0x100000u + bytes);
    EXPECT_EQ(lba(last()), bytes / 512);
    bytes += want;
    EXPECT_EQ(port.unanswered(), 1u) << "one command at a time";
    answer(0);
  }
  EXPECT_EQ(commands(), 3u);
  EXPECT_EQ(ended(), 0);
}

// The exact count: a command of n pages that does not begin on a page touches n + 1.
TEST_F(NvmeQueueTest, OurMemoryIsSplitByThePagesItTouches) {
  service.segments_max = 4;
  start(requests.make(Op::read, 0, 16384, memory(0x10000)));
  EXPECT_EQ(last().data_len, 16384u);
  answer(0);
  EXPECT_EQ(ended(), 0);
  start(requests.make(Op::read, 0, 16384, memory(0x10200)));
  EXPECT_EQ(last().data_len, 16384u - 512);
  answer(0);
  EXPECT_EQ(last().data_len, 512u);
  EXPECT_EQ(last().addr, 0x10200u + 16384 - 512);
  answer(0);
  EXPECT_EQ(ended(), 0);
}

TEST_F(NvmeQueueTest, WithZeroCopyAddressesAreOffsetsAndTheKernelHasSplit) {
  service.segments_max = 4;
  port.register_data(~0u, 1000);
  Request& rq = requests.make(Op::read, 0, 256 * 1024, nullptr);
  rq.slot = Slot{3};
  start(rq);
  EXPECT_EQ(port.last().sqe->rw_flags, static_cast<int>(IORING_URING_CMD_FIXED));
  EXPECT_EQ(port.last().sqe->buf_index, 1003);
  EXPECT_EQ(last().addr, 0u);
  EXPECT_EQ(last().data_len, 128u * 1024);
  answer(0);
  EXPECT_EQ(last().addr, 128u * 1024);
  EXPECT_EQ(port.last().sqe->buf_index, 1003);
  answer(0);
  EXPECT_EQ(ended(), 0);
}

TEST_F(NvmeQueueTest, A19_AFlushIsOneCommandWithoutData) {
  port.register_data(~0u, 0);
  start(requests.make(Op::flush));
  EXPECT_EQ(last().opcode, 0);
  EXPECT_EQ(last().nsid, 7u);
  EXPECT_EQ(last().data_len, 0u);
  EXPECT_EQ(port.last().sqe->rw_flags, 0);
  answer(0);
  EXPECT_EQ(commands(), 1u);
  EXPECT_EQ(ended(), 0);
}

TEST_F(NvmeQueueTest, A46_DiscardIsSplitByTheRangeLimit) {
  service.discard_blocks_max = 1000;
  start(requests.make(Op::discard, 512 * 10, 512 * 2500));
  std::uint64_t at = 10;
  for (const std::uint32_t blocks : {1000u, 1000u, 500u}) {
    NvmeRange range;
    std::memcpy(&range, reinterpret_cast<const void*>(last().addr), sizeof range);
    EXPECT_EQ(range.lba, at);
    EXPECT_EQ(range.blocks, blocks);
    at += blocks;
    answer(0);
  }
  EXPECT_EQ(ended(), 0);
}

TEST_F(NvmeQueueTest, TheLargestDiscardIsOneCommand) {
  start(requests.make(Op::discard, 0, 0xffff'f000));
  answer(0);
  EXPECT_EQ(commands(), 1u);
  EXPECT_EQ(ended(), 0);
}

TEST_F(NvmeQueueTest, WriteZeroesDeallocatesOnlyWhereItMay) {
  service.zeroes = NvmeDeallocate::may;
  service.zero_blocks_max = 8;
  start(requests.make(Op::write_zeroes, 0, 512 * 12));
  EXPECT_EQ(last().opcode, 8);
  EXPECT_EQ(last().cdw12, 7u | 1u << 25);
  answer(0);
  EXPECT_EQ(last().cdw12, 3u | 1u << 25);
  answer(0);
  EXPECT_EQ(ended(), 0);
  Request& rq = requests.make(Op::write_zeroes, 0, 512);
  rq.flags = request_flag::no_unmap | request_flag::fua;
  start(rq);
  EXPECT_EQ(last().cdw12, 1u << 30);
}

TEST_F(NvmeQueueTest, AStatusIsRetriedSoOftenAndThenStands) {
  start(requests.make(Op::read, 512 * 9, 512, memory(0x10000)));
  answer(0x281);
  answer(0x281);
  EXPECT_TRUE(port.take_done().empty());
  answer(0x281);
  EXPECT_EQ(ended(), -ENODATA);
  EXPECT_EQ(commands(), 3u);
  EXPECT_EQ(events.retried.get(), 2u);
  events.for_each([](const NvmeEvents::Row& row) {
    EXPECT_EQ(row.kind.load(), 0x281);
    EXPECT_EQ(row.count.get(), 3u);
    EXPECT_EQ(row.lba, 9u);
    EXPECT_EQ(row.opcode, NvmeOpcode::read);
  });
}

TEST_F(NvmeQueueTest, DoNotRetryIsHonouredAndTheRestIsNotSent) {
  start(requests.make(Op::write, 0, 256 * 1024, memory(0x100000)));
  answer(0x4080);
  EXPECT_EQ(ended(), -EREMOTEIO);
  EXPECT_EQ(commands(), 1u);
}

TEST_F(NvmeQueueTest, EachPieceHasItsRetries) {
  start(requests.make(Op::write, 0, 256 * 1024, memory(0x100000)));
  answer(0x006);
  answer(0x006);
  answer(0);
  answer(0x006);
  answer(0x006);
  EXPECT_EQ(lba(last()), 256u) << "the second piece, not the first again";
  answer(0);
  EXPECT_EQ(ended(), 0);
}

TEST_F(NvmeQueueTest, TheDrivesOwnRetryDelayIsWaitedFor) {
  service.retry_time_ns = 1000 * ms;
  service.retry_delay_ms = {0, 300, 0};
  start(requests.make(Op::read, 0, 512, memory(0x10000)));
  answer(0x006 | 2 << 11);
  while (port.now_ns() < 300 * ms) {
    EXPECT_EQ(commands(), 1u);
    ASSERT_NE(port.wake_ns(), time_never_ns) << "asked for anew by each look";
    port.advance_to(queue, port.wake_ns());
  }
  EXPECT_EQ(commands(), 2u);
}

TEST_F(NvmeQueueTest, ADelayWithoutEndIsNoLongerThanTheTimeForRetries) {
  service.retry_delay_ms = {65535 * 100, 0, 0};
  start(requests.make(Op::read, 0, 512, memory(0x10000)));
  answer(0x006 | 1 << 11);
  port.advance_to(queue, port.now_ns() + service.retry_time_ns);
  EXPECT_EQ(commands(), 2u);
}

TEST_F(NvmeQueueTest, WhatWaitsLongSeesSoonThatTheNamespaceIsGone) {
  service.retry_time_ns = 3'600'000 * ms;
  service.retry_delay_ms = {60'000, 0, 0};
  start(requests.make(Op::read, 0, 512, memory(0x10000)));
  answer(0x006 | 1 << 11);
  service.gone = true;
  port.advance_to(queue, port.now_ns() + NvmeQueue::look_ns);
  EXPECT_EQ(ended(), -ENODEV);
}

TEST_F(NvmeQueueTest, A45_CancelledCommandsAreSentAgainAfterAWhileAndNotForEver) {
  start(requests.make(Op::write, 4096, 4096, memory(0x10000)));
  std::uint64_t before = 0, longest = 0;
  while (true) {
    answer(-EINTR);
    if (port.unanswered() == 0 && port.wake_ns() == time_never_ns) break;
    EXPECT_EQ(port.unanswered(), 0u) << "not at once";
    before = port.now_ns();
    longest = std::max(longest, port.wake_ns() - before);
    port.advance_to(queue, port.wake_ns());
    EXPECT_EQ(lba(last()), 8u);
  }
  EXPECT_EQ(ended(), -ENOLINK);
  EXPECT_GE(port.now_ns(), service.retry_time_ns);
  EXPECT_GT(longest, NvmeQueue::wait_first_ns) << "waits grow";
  EXPECT_EQ(events.waited.get(), commands() - 1);
}

TEST_F(NvmeQueueTest, AWayThatIsBackStartsTheTimeAnew) {
  start(requests.make(Op::write, 0, 256 * 1024, memory(0x100000)));
  answer(-EINTR);
  port.advance_to(queue, port.wake_ns());
  answer(0);
  port.advance_to(queue, port.now_ns() + service.retry_time_ns);
  answer(-EINTR);
  EXPECT_TRUE(port.take_done().empty());
  port.advance_to(queue, port.wake_ns());
  answer(0);
  EXPECT_EQ(ended(), 0);
}

TEST_F(NvmeQueueTest, WhatIsGoneFailsAtOnceAlsoWhatWaits) {
  start(requests.make(Op::read, 0, 512, memory(0x10000)));
  answer(0x370);
  service.gone = true;
  port.advance_to(queue, port.wake_ns());
  EXPECT_EQ(ended(), -ENODEV);
  start(requests.make(Op::read, 0, 512, memory(0x10000)));
  EXPECT_EQ(ended(), -ENODEV);
  EXPECT_EQ(commands(), 1u);
}

TEST_F(NvmeQueueTest, AbortEndsWhatWaitsAndLeavesWhatIsAtTheDrive) {
  Request& waits = start(requests.make(Op::read, 0, 512, memory(0x10000)));
  answer(-EINTR);
  Request& out = start(requests.make(Op::write, 0, 256 * 1024, memory(0x100000)));
  for (Request* rq : {&waits, &out}) {
    rq->aborting = 1;
    queue.abort(*rq);
  }
  EXPECT_EQ(ended(), -EIO);
  port.advance_to(queue, port.now_ns() + 1000 * ms);
  EXPECT_EQ(commands(), 2u) << "what was aborted is not sent again";
  answer(0);
  EXPECT_EQ(ended(), -EIO) << "no second piece";
  EXPECT_EQ(commands(), 2u);
}

TEST_F(NvmeQueueTest, AnAbortedCommandIsNotRetried) {
  Request& rq = start(requests.make(Op::read, 0, 512, memory(0x10000)));
  rq.aborting = 1;
  queue.abort(rq);
  answer(0x006);
  EXPECT_EQ(ended(), -EIO);
}

TEST(NvmeEvents, ManyStatusesAreCountedTogether) {
  NvmeEvents events;
  for (std::int32_t code = 1; code <= 20; ++code) events.record(code, NvmeOpcode::read, 0);
  events.record(1, NvmeOpcode::read, 0);
  std::size_t rows = 0;
  events.for_each([&](const NvmeEvents::Row&) { ++rows; });
  EXPECT_EQ(rows, NvmeEvents::rows_max);
  EXPECT_EQ(events.others.get(), 4u);
}

}  // namespace
}  // namespace ublkd
