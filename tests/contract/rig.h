// Rig: one target with one queue on a TestPort, and what a test needs to send it requests.
//
// Thread rule: one thread.
// Invariants (checked; a broken one ends the test program or is kept in broken()):
//   1. Leftovers of queue_rqs are the end of the list it was given, in order.
//   2. No byte outside a request's data is touched; a write's data is not changed.
//   3. Something completes within progress_ns while requests are outstanding.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "tests/contract/test_port.h"

namespace ublkd {

// One request with its memory: guard | data | guard.
struct Io {
  static constexpr std::uint32_t guard_bytes = page_bytes;
  static constexpr std::uint32_t data_bytes_max = 1024 * 1024;

  Request rq;
  Mapping memory;
  std::uint64_t written_hash = 0;
  bool busy = false;

  [[nodiscard]] std::span<std::byte> data() { return {rq.data, rq.length_bytes}; }
};

struct IoWant {
  Op op = Op::read;
  std::uint64_t offset_bytes = 0;
  std::uint32_t length_bytes = 0;
  std::uint8_t flags = 0;
};

class Rig {
 public:
  static constexpr std::size_t ios_max = 64;
  static constexpr std::uint64_t retry_ns = 1'000'000;
  static constexpr std::uint64_t progress_ns = 20'000'000'000;

  // Error: no io_uring, or the queue does not open.
  [[nodiscard]] static Result<std::unique_ptr<Rig>> make(std::unique_ptr<Target> target, FileNames names,
                                                         Entries entries = Entries::small);

  [[nodiscard]] const Geometry& geometry() const { return geometry_; }
  [[nodiscard]] std::uint64_t blocks() const { return geometry_.size_bytes / geometry_.logical_block_bytes; }

  // A free request, its data filled for reads with rubbish and for writes by fill(seed). Null when all
  // are busy. start() sends it; several started before pump() arrive as one list.
  [[nodiscard]] Io* prepare(const IoWant& want, std::uint64_t seed = 0);
  void start(Io& io);
  // Runs turns until something completed; those done, no longer busy, in order.
  [[nodiscard]] std::vector<Io*> pump();
  // Only offers what was started, without waiting for anything.
  void send() { offer(); }
  void abort(Io& io);
  [[nodiscard]] std::size_t outstanding() const { return outstanding_; }
  // Runs turns until nothing is outstanding.
  [[nodiscard]] std::vector<Io*> drain();

  // One request, start to end; its error.
  [[nodiscard]] std::int32_t run(const IoWant& want, std::uint64_t seed = 0);
  // The bytes of the last run().
  [[nodiscard]] std::span<const std::byte> bytes() { return last_->data(); }

  // Empty, or the first invariant that was broken.
  [[nodiscard]] const std::string& broken() const { return broken_; }

 private:
  Rig(std::unique_ptr<Target> target, std::unique_ptr<TestPort> port);
  void offer();
  void collect();
  void check_memory(Io& io);

  std::unique_ptr<Target> target_;
  Geometry geometry_;
  std::unique_ptr<TestPort> port_;
  std::unique_ptr<TargetQueue> queue_;
  std::vector<std::unique_ptr<Io>> ios_;
  RequestList waiting_;
  std::vector<Io*> done_;
  std::size_t outstanding_ = 0;
  Io* last_ = nullptr;
  std::string broken_;
};

// Bytes that differ for each seed and place.
void fill(std::span<std::byte> bytes, std::uint64_t seed);
[[nodiscard]] bool filled(std::span<const std::byte> bytes, std::uint64_t seed);
[[nodiscard]] bool all_zero(std::span<const std::byte> bytes);

}  // namespace ublkd
