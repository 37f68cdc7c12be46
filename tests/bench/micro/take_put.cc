// Takes a batch of tag numbers and puts a batch, by pool, batch size and fill: nanoseconds per tag.
//
//   same     the tags that were taken are put, in the order they were taken
//   random   tags picked at random from all that are held are put; the loop's own bookkeeping is in the figure, and
//            stands alone in the rows of pool "none"
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "peers.h"
#include "suites.h"

namespace ublkd::bench {
namespace {

constexpr std::uint32_t depth = 4096;  // so that 97 % full leaves two batches of 32

// Leaves the tags it is given as they are: the cost of the loop.
struct NoPool {
  explicit NoPool(std::uint32_t) {}
};

}  // namespace

template <>
class Side<NoPool> {
 public:
  Side(NoPool&, std::uint32_t, std::uint32_t) {}
  std::uint32_t take(std::span<Tag> out) { return static_cast<std::uint32_t>(out.size()); }
  void put(std::span<const Tag>) {}
};

namespace {

// A pool filled for one benchmark, and the tags that are held.
template <class Pool>
struct Filled {
  explicit Filled(std::uint32_t full) : pool(depth), held(depth) {
    std::mt19937 random(seed);
    Side<Pool> side(pool, 0, 1);
    for (std::uint32_t t = 0; t < depth; ++t) held[t] = Tag(static_cast<std::uint16_t>(t));  // NoPool leaves them so
    side.take(held);
    const std::vector<Tag> free = free_tags(depth, full, random);
    std::vector<bool> is_free(depth);
    for (const Tag tag : free) is_free[raw(tag)] = true;
    std::erase_if(held, [&](Tag tag) { return is_free[raw(tag)]; });
    for (std::size_t i = held.size(); i > 1; --i) std::swap(held[i - 1], held[random() % i]);
    side.put(free);
  }
  Pool pool;
  std::vector<Tag> held;
};

void report(benchmark::State& state, std::uint64_t tags) {
  state.counters["ns_per_tag"] = benchmark::Counter(static_cast<double>(tags) * 1e-9,
                                                    benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

template <class Pool>
void same(benchmark::State& state, std::unique_ptr<Filled<Pool>>& filled, std::uint32_t batch, std::uint32_t full) {
  if (state.thread_index() == 0) filled = std::make_unique<Filled<Pool>>(full);
  std::unique_ptr<Side<Pool>> side;
  std::array<Tag, 64> tags{};
  std::uint64_t taken = 0;
  for (auto _ : state) {
    if (!side) [[unlikely]]
      side = std::make_unique<Side<Pool>>(filled->pool, state.thread_index(), state.threads());
    const std::uint32_t n = side->take(std::span(tags).first(batch));
    benchmark::DoNotOptimize(tags);
    side->put(std::span(tags).first(n));
    taken += n;
  }
  report(state, taken);
}

// Places in `held` to swap with, distinct within a batch.
std::vector<std::uint16_t> random_places(std::size_t held, std::uint32_t batch) {
  constexpr std::uint32_t rounds = 2048;
  std::mt19937 random(seed);
  std::vector<std::uint16_t> all(held), places;
  for (std::size_t i = 0; i < held; ++i) all[i] = static_cast<std::uint16_t>(i);
  for (std::uint32_t round = 0; round < rounds; ++round)
    for (std::uint32_t i = 0; i < batch; ++i) {
      std::swap(all[i], all[i + random() % (held - i)]);
      places.push_back(all[i]);
    }
  return places;
}

// One thread only.
template <class Pool>
void random_order(benchmark::State& state, std::unique_ptr<Filled<Pool>>& filled, std::uint32_t batch,
                  std::uint32_t full) {
  filled = std::make_unique<Filled<Pool>>(full);
  std::vector<Tag>& held = filled->held;
  const std::vector<std::uint16_t> places = random_places(held.size(), batch);
  Side<Pool> side(filled->pool, 0, 1);
  std::array<Tag, 64> taken{}, back{};
  std::size_t at = 0;
  std::uint64_t tags = 0;
  for (auto _ : state) {
    side.take(std::span(taken).first(batch));
    benchmark::DoNotOptimize(taken);
    for (std::uint32_t i = 0; i < batch; ++i) back[i] = std::exchange(held[places[at + i]], taken[i]);
    benchmark::DoNotOptimize(back);
    side.put(std::span(back).first(batch));
    at = at + batch == places.size() ? 0 : at + batch;
    tags += batch;
  }
  report(state, tags);
}

template <class Pool>
void register_pool(const std::string& name, int threads_max) {
  static std::unique_ptr<Filled<Pool>> filled;  // of the one benchmark that runs
  for (const std::uint32_t batch : {1u, 8u, 32u})
    for (const std::uint32_t full : {0u, 50u, 75u, 90u, 97u}) {
      const std::string end = "/batch:" + std::to_string(batch) + "/full:" + std::to_string(full);
      // By the CPU's clock where one thread runs alone: other programs on the machine do not count.
      const auto run = [=](benchmark::State& state) { same<Pool>(state, filled, batch, full); };
      benchmark::RegisterBenchmark(("take_put/" + name + "/same" + end).c_str(), run)->Threads(1);
      if (threads_max > 1)
        benchmark::RegisterBenchmark(("take_put/" + name + "/same" + end).c_str(), run)->Threads(2)->UseRealTime();
      if (full == 0) continue;
      benchmark::RegisterBenchmark(("take_put/" + name + "/random" + end).c_str(), [=](benchmark::State& state) {
        random_order<Pool>(state, filled, batch, full);
      })->Threads(1);
    }
}

}  // namespace

void register_take_put() {
  register_pool<TagPool>("single", 1);
  register_pool<MaskPool>("single_masks", 1);
  register_pool<AtomicTagPool>("atomic", 2);
  register_pool<PlainBitmap>("plain", 2);
  register_pool<MutexPool>("mutex", 2);
  register_pool<NoPool>("none", 1);
}

}  // namespace ublkd::bench
