#include "queue/batch_io.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <random>


namespace ublkd {
namespace {

struct Queue {
  explicit Queue(std::uint32_t slots, bool zero_copy = true)
      : requests(slots), batch(std::move(*BatchIo::make(
                             {.queue_id = 3, .slots = slots, .zero_copy = zero_copy, .first_buffer = 1000}))) {
    for (std::uint32_t i = 0; i < slots; ++i) {
      requests[i].slot = Slot(static_cast<std::uint16_t>(i));
      if (!zero_copy) requests[i].data = reinterpret_cast<std::byte*>(std::uint64_t{0x10000} * (i + 1));
    }
  }
  io_uring_sqe commit() {
    io_uring_sqe sqe{};
    batch->fill_commit(sqe);
    return sqe;
  }
  std::vector<Request> requests;
  std::unique_ptr<BatchIo> batch;
};

abi::BatchIo command_of(const io_uring_sqe& sqe) {
  abi::BatchIo cmd;
  std::memcpy(&cmd, sqe.cmd, sizeof cmd);
  return cmd;
}

// What the kernel reads of the i-th element.
abi::BatchElement element_of(const io_uring_sqe& sqe, std::uint32_t i) {
  abi::BatchElement e{};
  const std::size_t bytes = command_of(sqe).elem_bytes;
  std::memcpy(&e, reinterpret_cast<const std::byte*>(sqe.addr) + i * bytes, bytes);
  return e;
}

TEST(BatchIo, PrepNamesEverySlotAndItsBuffer) {
  Queue q(5);
  io_uring_sqe sqe{};
  q.batch->fill_prep(sqe, q.requests);
  const abi::BatchIo cmd = command_of(sqe);
  EXPECT_EQ(sqe.cmd_op, abi::u_io_prep_io_cmds);
  EXPECT_EQ(sqe.len, 5u * 8);
  EXPECT_EQ(cmd.q_id, 3);
  EXPECT_EQ(cmd.nr_elem, 5);
  EXPECT_EQ(cmd.elem_bytes, 8);
  EXPECT_EQ(cmd.flags, 0);
  for (std::uint16_t i = 0; i < 5; ++i) {
    EXPECT_EQ(element_of(sqe, i).tag, i);
    EXPECT_EQ(element_of(sqe, i).buf_index, 1000 + i);
  }
}

TEST(BatchIo, InCopyModeElementsCarryTheAddress) {
  Queue q(4, false);
  q.batch->add(q.requests[2], 4096);
  q.batch->add(q.requests[0], -EIO);
  const io_uring_sqe sqe = q.commit();
  EXPECT_EQ(sqe.cmd_op, abi::u_io_commit_io_cmds);
  EXPECT_EQ(command_of(sqe).elem_bytes, 16);
  EXPECT_EQ(command_of(sqe).flags, abi::batch_f_has_buf_addr);
  EXPECT_EQ(element_of(sqe, 0).tag, 2);
  EXPECT_EQ(element_of(sqe, 0).result, 4096);
  EXPECT_EQ(element_of(sqe, 0).buf_addr, 0x30000u);
  EXPECT_EQ(element_of(sqe, 1).result, -EIO);
}

TEST(BatchIo, WhatAPartialCommitLeavesIsOfferedAgainInOrder) {
  Queue q(8);
  for (int slot : {5, 1, 7, 2}) q.batch->add(q.requests[static_cast<std::size_t>(slot)], 100 + slot);
  const io_uring_sqe first = q.commit();
  EXPECT_FALSE(q.batch->has_results());
  const auto done = q.batch->committed(2 * 8);
  EXPECT_EQ(done.taken, 2u);
  EXPECT_EQ(done.refused, 0u);
  ASSERT_TRUE(q.batch->has_results());
  const io_uring_sqe again = q.commit();
  EXPECT_EQ(command_of(again).nr_elem, 2);
  EXPECT_EQ(element_of(again, 0).tag, 7);
  EXPECT_EQ(element_of(again, 0).result, 107);
  EXPECT_EQ(element_of(again, 1).tag, 2);
  EXPECT_EQ(q.batch->committed(2 * 8).taken, 2u);
  EXPECT_EQ(command_of(first).nr_elem, 4);
}

TEST(BatchIo, ASlotThatTheKernelRefusesIsGivenUpAndTheRestGoesOn) {
  Queue q(8);
  for (std::size_t slot : {3, 4, 5}) q.batch->add(q.requests[slot], 0);
  (void)q.commit();
  const auto done = q.batch->committed(-EBUSY);
  EXPECT_EQ(done.taken, 0u);
  EXPECT_EQ(done.refused, 1u);
  const io_uring_sqe again = q.commit();
  EXPECT_EQ(command_of(again).nr_elem, 2);
  EXPECT_EQ(element_of(again, 0).tag, 4);
}

// The kernel may read the elements of a command until its CQE: a seeded walk with commits that end late, in part, or
// not at all for a while.
TEST(BatchIo, ElementsAreLeftAloneUntilTheirCommandEnds) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (const std::uint32_t slots : {1u, 2u, 7u, 64u}) {
    Queue q(slots);
    io_uring_sqe prep{};
    q.batch->fill_prep(prep, q.requests);
    struct Open {
      io_uring_sqe sqe;
      std::vector<abi::BatchElement> elements;
    };
    std::deque<Open> open;
    std::vector<bool> out(slots);  // in an element: not ours to complete
    for (int step = 0; step < 20'000; ++step) {
      if (random() % 2 == 0) {
        for (std::uint32_t i = 0; i < slots; ++i)
          if (!out[i] && random() % 3 == 0) {
            q.batch->add(q.requests[i], static_cast<std::int32_t>(step));
            out[i] = true;
          }
        if (!q.batch->has_results()) continue;
        Open command{q.commit(), {}};
        for (std::uint32_t i = 0; i < command_of(command.sqe).nr_elem; ++i)
          command.elements.push_back(element_of(command.sqe, i));
        open.push_back(std::move(command));
      } else if (!open.empty()) {
        const Open command = std::move(open.front());
        open.pop_front();
        const auto count = static_cast<std::uint32_t>(command.elements.size());
        const std::uint32_t taken = random() % 4 == 0 ? static_cast<std::uint32_t>(random() % count) : count;
        const std::int32_t result = taken == 0 ? -EBUSY : static_cast<std::int32_t>(taken * 8);
        const auto done = q.batch->committed(result);
        ASSERT_EQ(done.taken + done.refused, taken == 0 ? 1 : taken);
        for (std::uint32_t i = 0; i < done.taken + done.refused; ++i) out[command.elements[i].tag] = false;
      }
      for (const Open& command : open)
        for (std::uint32_t i = 0; i < command.elements.size(); ++i) {
          ASSERT_EQ(element_of(command.sqe, i).tag, command.elements[i].tag);
          ASSERT_EQ(element_of(command.sqe, i).result, command.elements[i].result);
        }
    }
  }
}

}  // namespace
}  // namespace ublkd
