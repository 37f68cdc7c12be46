#include "mq/tag_pool.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace ublkd {
namespace {

std::set<std::uint32_t> expand(TagBatch batch) {
  std::set<std::uint32_t> tags;
  while (!batch.empty()) tags.insert(raw(batch.pop()));
  return tags;
}

TEST(TagPool, GivesEveryTagOnceAtEveryDepth) {
  for (const std::uint32_t depth : {1u, 2u, 63u, 64u, 65u, 128u, 1000u, 4095u, 4096u}) {
    TagPool pool(depth);
    std::set<std::uint32_t> all;
    for (TagBatch b = pool.take(depth); !b.empty(); b = pool.take(depth))
      for (const std::uint32_t t : expand(b)) EXPECT_TRUE(all.insert(t).second);
    EXPECT_EQ(all.size(), depth);
    EXPECT_EQ(*all.rbegin(), depth - 1);
    EXPECT_EQ(pool.free(), 0u);
  }
}

TEST(TagPool, NeverGivesMoreThanAsked) {
  TagPool pool(100);
  for (std::uint32_t wanted = 1; pool.free() > 0; wanted = wanted % 5 + 1) {
    const std::uint32_t before = pool.free();
    const std::uint32_t got = pool.take(wanted).count();
    EXPECT_GE(got, 1u);
    EXPECT_LE(got, wanted);
    EXPECT_EQ(pool.free(), before - got);
  }
}

TEST(TagPool, APassFindsAFragmentedTagWhereverItIs) {
  TagPool pool(4096);
  while (pool.free() > 0) pool.take(64);
  for (const std::uint32_t t : {0u, 63u, 64u, 2047u, 4095u}) {
    pool.put(Tag(static_cast<std::uint16_t>(t)));
    EXPECT_EQ(expand(pool.take(8)), std::set<std::uint32_t>{t});
  }
}

TEST(TagPool, BatchesHaveHolesWhereTagsAreTaken) {
  TagPool pool(64);
  pool.take(64);
  for (std::uint16_t t = 0; t < 64; t += 2) pool.put(Tag(t));
  const TagBatch batch = pool.take(64);
  EXPECT_EQ(batch.mask, 0x5555555555555555u);
}

TEST(TagPool, RandomTakeAndPutAgreesWithASet) {
  const std::uint32_t seed = 20261;
  std::mt19937 random(seed);
  for (const std::uint32_t depth : {7u, 64u, 200u, 4096u}) {
    TagPool pool(depth);
    std::vector<std::uint32_t> held;
    std::set<std::uint32_t> free_tags;
    for (std::uint32_t t = 0; t < depth; ++t) free_tags.insert(t);
    for (int step = 0; step < 2000; ++step) {
      if (random() % 2 == 0) {
        for (const std::uint32_t t : expand(pool.take(1 + random() % 40))) {
          ASSERT_EQ(free_tags.erase(t), 1u) << "seed " << seed << " step " << step;
          held.push_back(t);
        }
      } else if (!held.empty()) {
        std::swap(held[random() % held.size()], held.back());
        pool.put(Tag(static_cast<std::uint16_t>(held.back())));
        free_tags.insert(held.back());
        held.pop_back();
      }
      ASSERT_EQ(pool.free(), free_tags.size());
    }
  }
}

TEST(TagPoolDeathTest, ATagPutTwiceEndsTheProcess) {
  TagPool pool(4);
  EXPECT_DEATH(pool.put(Tag(0)), "internal check failed");
}

TEST(TagPoolDeathTest, ATagOutsideThePoolEndsTheProcess) {
  TagPool pool(4);
  EXPECT_DEATH(pool.put(Tag(4)), "internal check failed");
}

}  // namespace
}  // namespace ublkd
