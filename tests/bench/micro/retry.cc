// What asking again gains: plugs of n from pools in which the free tags are scattered, one pass against passes until
// the plug is satisfied or one finds nothing. Batches go back as they came, so that the bitmaps stay as they are; plugs
// go through pools_count pools in turn, whose tags are scattered differently.
#include <benchmark/benchmark.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "mq/atomic_tag_pool.h"
#include "mq/tag_pool.h"
#include "suites.h"

namespace ublkd::bench {
namespace {

constexpr std::uint32_t plug_max = 64, pools_count = 64;

enum class Passes : std::uint32_t { one = 1, all = plug_max };

template <class Pool>
void scatter(Pool& pool, std::uint32_t full, std::mt19937& random) {
  std::vector<Tag> all(pool.depth());
  pool.take_all(all);
  TagGather gather;
  for (const Tag tag : free_tags(pool.depth(), full, random)) gather.add(tag);
  gather.put_into(pool);
}

// A shared pool and the one queue that uses it.
struct AtomicPool : AtomicTagPool, SharedTags {
  explicit AtomicPool(std::uint32_t depth) : AtomicTagPool(depth), SharedTags(*this, 0, 1) {}
  using SharedTags::depth, SharedTags::free, SharedTags::put, SharedTags::take;
};

template <class Pool>
void plug(benchmark::State& state, std::uint32_t depth, std::uint32_t wanted, std::uint32_t full, Passes passes) {
  std::mt19937 random(seed);
  std::vector<std::unique_ptr<Pool>> pools;
  while (pools.size() < pools_count) scatter(*pools.emplace_back(std::make_unique<Pool>(depth)), full, random);
  std::array<TagBatch, plug_max> batches;
  std::array<Tag, plug_max> tags;
  std::uint64_t got = 0;
  std::size_t turn = 0;
  for (auto _ : state) {
    Pool& pool = *pools[turn++ % pools_count];
    std::uint32_t n = 0, batch_count = 0;
    while (n < wanted && batch_count < static_cast<std::uint32_t>(passes)) {
      const TagBatch batch = pool.take(wanted - n);
      if (batch.empty()) break;
      batches[batch_count++] = batch;
      n += batch.expand(tags.data() + n);
    }
    benchmark::DoNotOptimize(tags);
    for (std::uint32_t i = 0; i < batch_count; ++i) pool.put(batches[i]);
    got += n;
  }
  state.counters["got"] = static_cast<double>(got) / static_cast<double>(state.iterations());
}

}  // namespace

void register_retry() {
  for (const std::uint32_t depth : {256u, depth_max})
    for (const std::uint32_t full : {50u, 75u, 90u, 97u})
      for (std::uint32_t wanted = 1; wanted <= plug_max; wanted *= 2)
        for (const Passes passes : {Passes::one, Passes::all}) {
          const std::string end = std::string(passes == Passes::one ? "/one_pass" : "/retry") + "/depth:" +
                                  std::to_string(depth) + "/full:" + std::to_string(full) +
                                  "/plug:" + std::to_string(wanted);
          const auto add = [&](const char* pool, auto run) {
            benchmark::RegisterBenchmark((pool + end).c_str(), run, depth, wanted, full, passes);
          };
          add("retry/single", plug<TagPool>);
          add("retry/atomic", plug<AtomicPool>);
        }
}

}  // namespace ublkd::bench
