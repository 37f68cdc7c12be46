// Interleavings: runs a few small threads in every order of their atomic steps, one run per order.
//
//   make() -> threads + check -> run, choosing a thread before each step -> next run with another choice -> ... -> none
//
// A state that was met before is not gone through again: shared words, and each thread's place, which follows from what
// it has read so far. Orders are sequentially consistent, which is what seq_cst operations have.
//
// Thread rule: one thread; the tested threads are fibers on it. One Interleavings at a time.
// Invariants:
//   1. A tested thread does the same from run to run as long as its reads see the same.
//   2. A thread that is given up in mid-run is not unwound: it must hold nothing that needs a destructor.
#pragma once

#include <ucontext.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace ublkd::testing {

class Interleavings {
 public:
  struct World {
    std::vector<std::function<void()>> threads;
    std::function<std::string()> check_end;  // after all threads ended; empty: good
    std::function<std::uint64_t()> digest;   // of all that the threads share
    std::shared_ptr<void> state;
  };

  static constexpr std::size_t threads_max = 4;
  static constexpr std::uint64_t runs_max = 4'000'000;

  // The first fault found, with its schedule; empty: there is none in any order.
  std::string explore(const std::function<World()>& make) {
    current_ = this;
    do {
      ++runs_;
      run(make);
    } while (fault_.empty() && runs_ < runs_max && next_path());
    current_ = nullptr;
    if (fault_.empty() && runs_ == runs_max) return "not finished";
    return fault_;
  }

  [[nodiscard]] std::uint64_t runs() const { return runs_; }
  [[nodiscard]] std::size_t states() const { return met_.size(); }

  // Called by a tested thread before each step; outside of one it does nothing. The step is taken when *gate is true.
  static void step(const bool* gate = nullptr) {
    if (current_ == nullptr || !current_->in_fiber_) return;
    Fiber& fiber = current_->fibers_[current_->running_];
    fiber.gate = gate;
    swapcontext(&fiber.context, &current_->chooser_);
    fiber.seen = mix(fiber.seen, 1);
  }

  // Called by a tested thread with what its step has read.
  template <class T>
  static T saw(T value) {
    if (current_ != nullptr && current_->in_fiber_) {
      Fiber& fiber = current_->fibers_[current_->running_];
      fiber.seen = mix(fiber.seen, static_cast<std::uint64_t>(value));
    }
    return value;
  }

  // Called by a tested thread where what it has read no longer matters, but for `values`.
  template <class... Values>
  static void place(Values... values) {
    std::uint64_t& seen = current_->fibers_[current_->running_].seen;
    seen = current_->running_;
    ((seen = mix(seen, static_cast<std::uint64_t>(values))), ...);
  }

  static std::uint64_t mix(std::uint64_t digest, std::uint64_t value) {
    digest = (digest ^ value) * 0x9e37'79b9'7f4a'7c15;
    return digest ^ (digest >> 29);
  }

  // Called by a tested thread that saw a fault: ends the run.
  static void fail(std::string why) {
    if (current_->fault_.empty()) current_->fault_ = std::move(why);
    step();
  }

 private:
  static constexpr std::size_t stack_bytes = 256 * 1024;

  struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack = std::make_unique<char[]>(stack_bytes);
    const bool* gate = nullptr;
    std::uint64_t seen = 0;  // digest of all it has read
    bool ended = false;
    [[nodiscard]] bool ready() const { return !ended && (gate == nullptr || *gate); }
  };

  // A state of the run: bit t of ready: thread t can step; of tried: it was let.
  struct Choice {
    std::uint32_t ready = 0, tried = 0, chosen = 0;

    [[nodiscard]] bool turn() {
      const std::uint32_t open = ready & ~tried;
      if (open == 0) return false;
      chosen = static_cast<std::uint32_t>(std::countr_zero(open));
      tried |= 1u << chosen;
      return true;
    }
  };

  static void enter() {
    Interleavings& self = *current_;
    Fiber& fiber = self.fibers_[self.running_];
    self.world_.threads[self.running_]();
    fiber.ended = true;
    swapcontext(&fiber.context, &self.chooser_);
  }

  void resume(std::uint32_t t) {
    running_ = t;
    in_fiber_ = true;
    swapcontext(&chooser_, &fibers_[t].context);
    in_fiber_ = false;
  }

  void start(const std::function<World()>& make) {
    world_ = make();
    for (std::uint32_t t = 0; t < world_.threads.size(); ++t) {
      Fiber& fiber = fibers_[t];
      fiber.ended = false;
      fiber.seen = t;
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = stack_bytes;
      fiber.context.uc_link = nullptr;
      makecontext(&fiber.context, &Interleavings::enter, 0);
      resume(t);  // up to its first step
    }
  }

  void run(const std::function<World()>& make) {
    start(make);
    for (std::size_t depth = 0; fault_.empty(); ++depth) {
      if (depth == path_.size() && !add_choice()) break;
      resume(path_[depth].chosen);
    }
    if (!fault_.empty()) fault_ += schedule();
  }

  // False: the run is over.
  bool add_choice() {
    Choice choice;
    std::uint32_t living = 0;
    std::uint64_t digest = world_.digest();
    for (std::uint32_t t = 0; t < world_.threads.size(); ++t) {
      digest = mix(digest, fibers_[t].seen);
      if (!fibers_[t].ended) ++living;
      if (fibers_[t].ready()) choice.ready |= 1u << t;
    }
    if (living == 0) fault_ = world_.check_end();
    else if (choice.ready == 0) fault_ = "asleep for ever";
    if (!met_.insert(digest).second || !choice.turn()) return false;
    path_.push_back(choice);
    return true;
  }

  // Turns the last choice that is still open; false when there is none.
  bool next_path() {
    while (!path_.empty() && !path_.back().turn()) path_.pop_back();
    return !path_.empty();
  }

  [[nodiscard]] std::string schedule() const {
    std::string text = "; schedule ";
    for (const Choice& choice : path_) text += static_cast<char>('0' + choice.chosen);
    return text;
  }

  static inline Interleavings* current_ = nullptr;
  World world_;
  std::array<Fiber, threads_max> fibers_;
  ucontext_t chooser_;
  std::uint32_t running_ = 0;
  bool in_fiber_ = false;
  std::vector<Choice> path_;
  std::unordered_set<std::uint64_t> met_;
  std::string fault_;
  std::uint64_t runs_ = 0;
};

// Stands in for std::atomic in the tested code: each operation is a step.
template <class T>
class SteppedAtomic {
 public:
  SteppedAtomic() = default;
  explicit SteppedAtomic(T value) : value_(value) {}
  SteppedAtomic(const SteppedAtomic&) = delete;
  SteppedAtomic& operator=(const SteppedAtomic&) = delete;

  T load(std::memory_order) const {
    Interleavings::step();
    return Interleavings::saw(value_);
  }
  void store(T value, std::memory_order) {
    Interleavings::step();
    value_ = value;
  }
  T fetch_or(T bits, std::memory_order) {
    Interleavings::step();
    return Interleavings::saw(std::exchange(value_, value_ | bits));
  }
  T fetch_and(T bits, std::memory_order) {
    Interleavings::step();
    return Interleavings::saw(std::exchange(value_, value_ & bits));
  }

 private:
  T value_{};
};

}  // namespace ublkd::testing
