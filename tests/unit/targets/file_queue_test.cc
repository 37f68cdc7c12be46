// The file target's data path against scripted ring answers.
#include "targets/file/file_queue.h"

#include <gtest/gtest.h>
#include <linux/fs.h>

#include <cerrno>
#include <vector>

#include "tests/fakes/fake_port.h"
#include "tests/fakes/requests.h"

namespace ublkd {
namespace {

constexpr std::uint64_t begin_bytes = 1024 * 1024;

class FileQueueTest : public ::testing::Test {
 protected:
  explicit FileQueueTest(bool direct = false, DiscardMethod discard = DiscardMethod::punch_hole)
      : service{begin_bytes, 512, direct, discard, zeroes} {}

  void start(Request& rq) {
    RequestList list = list_of({&rq});
    queue.queue_rqs(list);
    EXPECT_TRUE(list.empty());
  }
  void answer(std::int32_t result) { port.answer(queue, result); }
  // The error of the one request that is done; 1 when none or several are.
  std::int32_t error() {
    const auto done = port.take_done();
    return done.size() == 1 ? done[0]->error : 1;
  }
  [[nodiscard]] bool none_done() { return port.take_done().empty(); }
  Request& io(Op op, std::uint32_t length = 4096) { return requests.make(op, 8192, length, data.data()); }

  std::vector<std::byte> data = std::vector<std::byte>(1024 * 1024);
  std::vector<std::byte> zeroes = std::vector<std::byte>(64 * 1024);
  FakePort port{7};
  Requests requests;
  FileService service;
  FileQueue queue{port, service};
};

// The same queue over direct I/O on a block device.
class DirectFileQueueTest : public FileQueueTest {
 protected:
  DirectFileQueueTest() : FileQueueTest(true, DiscardMethod::block_command) {}
};

TEST_F(FileQueueTest, ReadAsksForItsBytesAtTheBackingsOffset) {
  start(io(Op::read));
  const io_uring_sqe& sqe = *port.last().sqe;
  EXPECT_EQ(sqe.opcode, IORING_OP_READ);
  EXPECT_EQ(sqe.fd, 7);
  EXPECT_EQ(sqe.off, begin_bytes + 8192);
  EXPECT_EQ(sqe.len, 4096u);
  EXPECT_EQ(sqe.addr, reinterpret_cast<std::uintptr_t>(data.data()));
  answer(4096);
  EXPECT_EQ(error(), 0);
}

TEST_F(FileQueueTest, ShortReadIsContinuedWhereItStopped) {
  start(io(Op::read));
  answer(1000);
  EXPECT_TRUE(none_done());
  EXPECT_EQ(port.last().sqe->off, begin_bytes + 8192 + 1000);
  EXPECT_EQ(port.last().sqe->len, 3096u);
  EXPECT_EQ(port.last().sqe->addr, reinterpret_cast<std::uintptr_t>(data.data() + 1000));
  answer(3096);
  EXPECT_EQ(error(), 0);
}

TEST_F(FileQueueTest, ReadOfNothingIsAnError) {
  start(io(Op::read));
  answer(0);
  EXPECT_EQ(error(), -EIO);
}

TEST_F(FileQueueTest, EndOfBackingInTheMiddleIsAnError) {
  start(io(Op::read));
  answer(512);
  answer(0);
  EXPECT_EQ(error(), -EIO);
}

TEST_F(FileQueueTest, WriteOfNothingIsAnError) {
  start(io(Op::write));
  answer(0);
  EXPECT_EQ(error(), -EIO);
}

TEST_F(FileQueueTest, MoreThanAskedIsAnError) {
  start(io(Op::read));
  answer(4097);
  EXPECT_EQ(error(), -EIO);
}

TEST_F(FileQueueTest, ErrorAfterAPartEndsTheRequest) {
  start(io(Op::write));
  answer(512);
  answer(-ENOSPC);
  EXPECT_EQ(error(), -ENOSPC);
  EXPECT_EQ(port.unanswered(), 0u);
}

TEST_F(FileQueueTest, TransientErrorsAreRetried) {
  start(io(Op::write));
  answer(-EAGAIN);
  answer(-EINTR);
  EXPECT_TRUE(none_done());
  answer(4096);
  EXPECT_EQ(error(), 0);
}

TEST_F(FileQueueTest, TransientErrorsForEverEndWithAnIoError) {
  start(io(Op::write));
  for (std::uint64_t i = 0; i < FileQueue::idle_parts_max; ++i) answer(-EAGAIN);
  EXPECT_TRUE(none_done());
  answer(-EAGAIN);
  EXPECT_EQ(error(), -EIO);  // never EAGAIN: the block layer would try for ever
}

TEST_F(FileQueueTest, ProgressStartsTheRetriesAnew) {
  start(io(Op::write));
  for (int part = 0; part < 3; ++part) {
    for (std::uint64_t i = 1; i < FileQueue::idle_parts_max; ++i) answer(-EAGAIN);
    answer(512);
  }
  answer(4096 - 3 * 512);
  EXPECT_EQ(error(), 0);
}

TEST_F(FileQueueTest, ManySmallPartsAreAllMoved) {
  start(io(Op::read, 64 * 1024));
  for (int i = 0; i < 64; ++i) {
    EXPECT_TRUE(none_done());
    answer(1024);
  }
  EXPECT_EQ(error(), 0);
}

TEST_F(FileQueueTest, FuaIsOnEveryPart) {
  Request& rq = io(Op::write);
  rq.flags = request_flag::fua;
  start(rq);
  EXPECT_EQ(port.last().sqe->rw_flags, RWF_DSYNC);
  answer(512);
  EXPECT_EQ(port.last().sqe->rw_flags, RWF_DSYNC);
  answer(3584);
  EXPECT_EQ(error(), 0);
}

TEST_F(FileQueueTest, FuaIsNotPutOnReads) {
  Request& rq = io(Op::read);
  rq.flags = request_flag::fua;
  start(rq);
  EXPECT_EQ(port.last().sqe->rw_flags, 0);
  answer(4096);
  EXPECT_EQ(error(), 0);
}

TEST_F(FileQueueTest, FlushIsAnFdatasync) {
  start(io(Op::flush));
  EXPECT_EQ(port.last().sqe->opcode, IORING_OP_FSYNC);
  EXPECT_EQ(port.last().sqe->fsync_flags, IORING_FSYNC_DATASYNC);
  answer(0);
  EXPECT_EQ(error(), 0);
}

TEST_F(FileQueueTest, FailedFlushIsReported) {
  start(io(Op::flush));
  answer(-EIO);
  EXPECT_EQ(error(), -EIO);
}

TEST_F(FileQueueTest, DiscardPunchesExactlyItsRangeAndKeepsTheSize) {
  start(io(Op::discard, 0x80000000u));
  const io_uring_sqe& sqe = *port.last().sqe;
  EXPECT_EQ(sqe.opcode, IORING_OP_FALLOCATE);
  EXPECT_EQ(sqe.off, begin_bytes + 8192);
  EXPECT_EQ(sqe.addr, 0x80000000u);
  EXPECT_EQ(sqe.len, static_cast<unsigned>(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE));
  answer(0);
  EXPECT_EQ(error(), 0);
}

TEST_F(FileQueueTest, NoUnmapZeroesWithoutPunching) {
  Request& rq = io(Op::write_zeroes);
  rq.flags = request_flag::no_unmap;
  start(rq);
  EXPECT_EQ(port.last().sqe->len, static_cast<unsigned>(FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE));
  answer(0);
  EXPECT_EQ(error(), 0);
}

TEST_F(FileQueueTest, RefusedZeroRangeIsWrittenInParts) {
  Request& rq = io(Op::write_zeroes, 160 * 1024);
  rq.flags = request_flag::no_unmap;
  start(rq);
  answer(-EOPNOTSUPP);
  EXPECT_EQ(port.last().sqe->opcode, IORING_OP_WRITE);
  EXPECT_EQ(port.last().sqe->addr, reinterpret_cast<std::uintptr_t>(zeroes.data()));
  EXPECT_EQ(port.last().sqe->len, 64 * 1024u);
  answer(64 * 1024);
  EXPECT_EQ(port.last().sqe->off, begin_bytes + 8192 + 64 * 1024);
  answer(64 * 1024);
  EXPECT_EQ(port.last().sqe->len, 32 * 1024u);
  answer(32 * 1024);
  EXPECT_EQ(error(), 0);
}

TEST_F(FileQueueTest, RefusalIsRemembered) {
  start(io(Op::write_zeroes));
  answer(-EOPNOTSUPP);
  answer(4096);
  EXPECT_EQ(error(), 0);
  start(io(Op::write_zeroes));
  EXPECT_EQ(port.last().sqe->opcode, IORING_OP_WRITE);
  answer(4096);
  EXPECT_EQ(error(), 0);
}

TEST_F(FileQueueTest, RefusedDiscardIsReportedAndNothingElseIsSent) {
  for (int i = 0; i < 100; ++i) {
    start(io(Op::discard));
    answer(-EOPNOTSUPP);
    EXPECT_EQ(error(), -EOPNOTSUPP);
  }
  EXPECT_EQ(port.entries().size(), 100u);
}

TEST_F(FileQueueTest, FuaWriteZeroesIsFollowedByAFlush) {
  Request& rq = io(Op::write_zeroes);
  rq.flags = request_flag::fua;
  start(rq);
  answer(0);
  EXPECT_TRUE(none_done());
  EXPECT_EQ(port.last().sqe->opcode, IORING_OP_FSYNC);
  answer(0);
  EXPECT_EQ(error(), 0);
}

TEST_F(FileQueueTest, AbortNamesTheEntryThatIsInTheRing) {
  Request& rq = io(Op::write);
  start(rq);
  queue.abort(rq);
  EXPECT_EQ(port.last().sqe->opcode, IORING_OP_ASYNC_CANCEL);
  EXPECT_EQ(port.last().sqe->addr, port.user_data(rq, static_cast<std::uint8_t>(FileStep::transfer)));
  EXPECT_EQ(port.last().rq, nullptr);
  EXPECT_TRUE(none_done());
  answer(-ECANCELED);
  EXPECT_EQ(error(), -EIO);
}

TEST_F(FileQueueTest, NoFurtherPartAfterAbort) {
  Request& rq = io(Op::write);
  start(rq);
  queue.abort(rq);
  answer(512);
  EXPECT_EQ(error(), -EIO);
  EXPECT_EQ(port.unanswered(), 0u);
}

TEST_F(FileQueueTest, AbortedRequestThatMovedAllSucceeds) {
  Request& rq = io(Op::write);
  start(rq);
  queue.abort(rq);
  answer(4096);
  EXPECT_EQ(error(), 0);
}

TEST_F(FileQueueTest, AnswersInAnyOrderBelongToTheirRequests) {
  Request& a = io(Op::read);
  Request& b = io(Op::read);
  start(a);
  start(b);
  queue.on_cqe(b, port.entries()[1].step, -EIO);
  queue.on_cqe(a, port.entries()[0].step, 4096);
  EXPECT_EQ(b.error, -EIO);
  EXPECT_EQ(a.error, 0);
}

TEST_F(DirectFileQueueTest, PartThatEndsInsideABlockIsMovedFromTheBlocksStart) {
  start(io(Op::write));
  answer(1000);
  EXPECT_EQ(port.last().sqe->off, begin_bytes + 8192 + 512);
  EXPECT_EQ(port.last().sqe->len, 3584u);
  answer(3584);
  EXPECT_EQ(error(), 0);
}

TEST_F(DirectFileQueueTest, PartsBelowABlockForEverEndWithAnIoError) {
  start(io(Op::read));
  for (std::uint64_t i = 0; i < FileQueue::idle_parts_max; ++i) answer(100);
  EXPECT_TRUE(none_done());
  answer(100);
  EXPECT_EQ(error(), -EIO);
}

TEST_F(DirectFileQueueTest, BlockDeviceDiscardIsACommand) {
  start(io(Op::discard, 1024 * 1024));
  const io_uring_sqe& sqe = *port.last().sqe;
  EXPECT_EQ(sqe.opcode, IORING_OP_URING_CMD);
  EXPECT_EQ(sqe.addr, begin_bytes + 8192);
  EXPECT_EQ(sqe.addr3, 1024u * 1024);
  EXPECT_EQ(sqe.len, 0u);
  answer(0);
  EXPECT_EQ(error(), 0);
}

}  // namespace
}  // namespace ublkd
