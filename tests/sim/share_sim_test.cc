// Seeded simulation of the sharing: the cases of the fairness benchmark and random tenants, in virtual time. Every step
// checks the invariants (share_world.h). A failing run prints its seed; UBLKD_SEED repeats it.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <random>

#include "sim/progressive_filling.h"
#include "sim/share_world.h"
#include "stats/fairness.h"

namespace ublkd::sim {
namespace {

constexpr std::uint64_t warm_up = 200 * ms;

std::uint64_t base_seed() {
  static const std::uint64_t seed = [] {
    const char* given = std::getenv("UBLKD_SEED");
    const std::uint64_t s = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
    std::printf("UBLKD_SEED=%llu\n", static_cast<unsigned long long>(s));
    return s;
  }();
  return seed;
}

class Pick {
 public:
  explicit Pick(std::uint64_t seed) : random_(seed) {}
  std::uint32_t operator()(std::uint32_t low, std::uint32_t high) {
    return low + static_cast<std::uint32_t>(random_() % (high - low + 1));
  }

 private:
  std::mt19937_64 random_;
};

// Completions per second of each tenant over `for_ns`, after a warm-up.
std::vector<double> rates(ShareWorld& world, std::uint64_t for_ns = second) {
  world.run(world.now_ns + warm_up);
  const auto before = world.completed();
  world.run(world.now_ns + for_ns);
  const auto after = world.completed();
  std::vector<double> out;
  for (std::size_t i = 0; i < after.size(); ++i)
    out.push_back(static_cast<double>(after[i] - before[i]) * 1e9 / static_cast<double>(for_ns));
  return out;
}

double sum(const std::vector<double>& v) {
  double s = 0;
  for (const double x : v) s += x;
  return s;
}

double jain(const std::vector<double>& v) { return jain_index(v).value(); }

std::uint64_t p99(Tenant& tenant) {
  auto& l = tenant.latencies_ns;
  std::sort(l.begin(), l.end());
  return l[l.size() * 99 / 100];
}

const TenantSpec heavy{.depth = 128};
const double alone = 32'000;  // 32 tags of 1 ms

TEST(ShareSimulation, A_ADeviceAloneHasAllTags) {
  ShareWorld world(32, {}, {heavy});
  EXPECT_GE(rates(world)[0], 0.97 * alone);
}

TEST(ShareSimulation, B_FourHeavyDevicesHaveAQuarterEach) {
  ShareWorld world(32, {}, {heavy, heavy, heavy, heavy});
  const auto r = rates(world);
  EXPECT_GE(jain(r), 0.999);
  EXPECT_GE(sum(r), 0.98 * alone);
}

TEST(ShareSimulation, C_DevicesThatWentIdleCostNothing) {
  const TenantSpec once{.depth = 1, .stop_ns = ms / 2};
  TenantSpec later = heavy;
  later.start_ns = 2 * ms;
  ShareWorld world(32, {}, {later, once, once, once});
  world.run(later.start_ns + 20 * ms);
  for (int window = 0; window < 80; ++window) {
    const std::uint64_t before = world.tenant(0).completed;
    world.run(world.now_ns + 100 * ms);
    EXPECT_GE(static_cast<double>(world.tenant(0).completed - before), 0.95 * alone / 10) << "window " << window;
  }
}

TEST(ShareSimulation, C2_AReadOnceInFourSecondsCostsNothing) {
  ShareWorld world(32, {}, {heavy, {.depth = 1, .on_ns = ms / 2, .off_ns = 4 * second}});
  EXPECT_GE(rates(world, 14 * second)[0], 0.95 * alone);
}

TEST(ShareSimulation, D_ASmallDeviceKeepsItsRateBesideAHeavyOne) {
  ShareWorld world(32, {}, {heavy, {.depth = 4}});
  world.tenant(1).keep_latencies = true;
  const auto r = rates(world);
  EXPECT_GE(sum(r), 0.95 * alone);
  EXPECT_GE(r[1], 0.95 * 4 * 1e9 / (ms + 2 * us));
  EXPECT_LE(p99(world.tenant(1)), ms * 13 / 10);
}

TEST(ShareSimulation, E_AReadPerTenMillisecondsHardlyWaits) {
  ShareWorld world(32, {}, {heavy, {.depth = 1, .think_ns = 9 * ms}});
  world.tenant(1).keep_latencies = true;
  const auto r = rates(world, 3 * second);
  EXPECT_GE(r[0], 0.93 * alone);
  EXPECT_LE(p99(world.tenant(1)), ms * 13 / 10);
}

TEST(ShareSimulation, F_SharesFollowTheWeights) {
  std::vector<TenantSpec> tenants(4, heavy);
  for (std::uint32_t i = 0; i < 4; ++i) tenants[i].weight = 1u << i;
  ShareWorld world(32, {}, tenants);
  const auto r = rates(world);
  for (std::size_t i = 0; i < 4; ++i) {
    const double expected = tenants[i].weight / 15.0;
    EXPECT_NEAR(r[i] / sum(r), expected, 0.03 * expected);
  }
}

TEST(ShareSimulation, G_WhatASmallDeviceLeavesIsSharedEqually) {
  ShareWorld world(32, {}, {{.depth = 4}, {.depth = 16}, {.depth = 64}, {.depth = 128}});
  const auto r = rates(world);
  EXPECT_GE(r[0], 0.97 * 4 * 1e9 / (ms + 2 * us));
  for (std::size_t i = 1; i < 4; ++i) EXPECT_NEAR(r[i], (sum(r) - r[0]) / 3, 0.03 * r[i]);
  EXPECT_GE(sum(r), 0.95 * alone);
}

TEST(ShareSimulation, H_MoreDevicesThanTagsAllMoveOn) {
  ShareWorld world(4, {}, std::vector<TenantSpec>(8, {.depth = 16}));
  EXPECT_GE(jain(rates(world)), 0.99);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_LT(world.tenant(i).gap_max_ns, 100 * ms);
}

TEST(ShareSimulation, I_ASlowDeviceDoesNotTakeAFastOnesTags) {
  ShareWorld world(32, {}, {{.depth = 64, .service_ns = 100 * ms}, {.depth = 8, .service_ns = 100 * us}});
  EXPECT_GE(rates(world)[1], 0.9 * 8 * 1e9 / (102 * us));
}

// CASES A49. Found in a guest: with requests that take grace and all end at once, each turn was taken for the beginning
// of a shortage, all clocks began anew, and the same half of the devices came first for ever.
TEST(ShareSimulation, A49_RequestsAsLongAsGraceAreSharedToo) {
  for (const std::uint64_t service : {5 * ms, 6 * ms, 20 * ms}) {
    ShareWorld world(4, {}, std::vector<TenantSpec>(8, {.depth = 16, .service_ns = service}));
    EXPECT_GE(jain(rates(world, 4 * second)), 0.99) << service;
    for (std::size_t i = 0; i < 8; ++i) EXPECT_LE(world.tenant(i).gap_max_ns, 4 * service) << service;
  }
}

// CASES A50: A holds all tags and sends nothing more; whoever frees a tag wakes a waiter of any device.
TEST(ShareSimulation, A50_ATagThatIsFreedGoesToAnotherDevicesWaiter) {
  for (const SharePolicy policy : {SharePolicy::none, SharePolicy::equal, SharePolicy::adaptive}) {
    const TenantSpec holder{.depth = 2, .service_ns = second, .stop_ns = ms};
    const TenantSpec waiter{.depth = 1, .service_ns = ms, .start_ns = 10 * ms, .stop_ns = 20 * ms};
    ShareWorld world(2, {.policy = policy}, {holder, waiter});
    world.run(2 * second);
    ASSERT_EQ(world.tenant(1).completed, 1u) << share_policy_name(policy);
    EXPECT_LE(world.tenant(1).last_completion_ns, second + 50 * ms) << share_policy_name(policy);
  }
}

// The kernel's rule: B, C, D count for five seconds, so A has a quarter, then all.
TEST(ShareSimulation, EqualKeepsTheKernelsRuleAndItsFault) {
  const TenantSpec once{.depth = 1, .stop_ns = ms / 2};
  TenantSpec later = heavy;
  later.start_ns = 2 * ms;
  ShareWorld world(32, {.policy = SharePolicy::equal}, {later, once, once, once});
  EXPECT_NEAR(rates(world)[0], alone / 4, alone / 100);
  world.run(5100 * ms);
  EXPECT_NEAR(rates(world)[0], alone, alone / 100);
}

TEST(ShareSimulation, EqualLeavesAThirdOfTheTagsIdleWhereAdaptiveDoesNot) {
  ShareWorld world(32, {.policy = SharePolicy::equal}, {heavy, {.depth = 4}});
  EXPECT_NEAR(sum(rates(world)), alone * 20 / 32, alone / 100);
}

TEST(ShareSimulation, ThePolicyCanChangeWhileItRuns) {
  ShareWorld world(32, {.policy = SharePolicy::equal}, {heavy, {.depth = 4}});
  world.run(second);
  world.dispatcher.configure({.policy = SharePolicy::adaptive});
  EXPECT_GE(sum(rates(world)), 0.95 * alone);
  world.dispatcher.configure({.policy = SharePolicy::none});
  EXPECT_GE(sum(rates(world)), 0.95 * alone);
  world.dispatcher.configure({.policy = SharePolicy::equal});
  EXPECT_NEAR(sum(rates(world)), alone * 20 / 32, alone / 100);
}

TEST(ShareSimulation, AWeightCanChangeWhileItRuns) {
  ShareWorld world(32, {}, {heavy, heavy});
  EXPECT_NEAR(rates(world)[1] / alone, 0.5, 0.01);
  world.dispatcher.set_weight(world.tenant(1).state, 3);
  EXPECT_NEAR(rates(world)[1] / alone, 0.75, 0.01);
}

// Random tenants, all with requests all the time, against progressive filling: within 5 % in every 100 ms.
TEST(ShareSimulation, RandomTenantsHoldWhatProgressiveFillingGives) {
  const auto began = std::chrono::steady_clock::now();
  std::uint64_t steps = 0;
  double worst = 0;
  for (std::uint64_t round = 0; round < 80 && !HasFatalFailure(); ++round) {
    SCOPED_TRACE("UBLKD_SEED=" + std::to_string(base_seed()) + " round " + std::to_string(round));
    Pick pick(base_seed() + round);
    std::vector<TenantSpec> specs(pick(2, 8));
    std::vector<Demand> demands;
    for (TenantSpec& s : specs) {
      s.depth = pick(1, 3) == 1 ? pick(1, 8) : pick(8, 128);
      s.weight = pick(1, 8);
      s.service_ns = pick(50, 2000) * us;
      s.think_ns = us;
      demands.push_back({s.depth * static_cast<double>(s.service_ns) / static_cast<double>(s.service_ns + us),
                         static_cast<double>(s.weight)});
    }
    const std::uint32_t depth = pick(8, 128);
    const auto expected = fill(depth, demands);
    ShareWorld world(depth, {}, specs);
    world.run(warm_up);
    world.mean_held();
    for (int window = 0; window < 5; ++window) {
      world.run(world.now_ns + 100 * ms);
      const auto held = world.mean_held();
      for (std::size_t i = 0; i < held.size(); ++i) {
        worst = std::max(worst, std::abs(held[i] / expected[i] - 1));
        EXPECT_NEAR(held[i], expected[i], 0.05 * expected[i]) << "tenant " << i << " of " << held.size() << ", depth "
                                                              << depth << ", window " << window;
      }
    }
    steps += world.steps;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  std::printf("worst deviation %.1f %%, %.1f million steps a minute\n", worst * 100,
              static_cast<double>(steps) / 1e6 / took.count() * 60);
}

// Everything at once: flapping tenants, leftovers, errors, aborts and timeouts, devices that go and come back, weights
// and policies that change. Only the invariants and the end are checked.
TEST(ShareSimulation, ChaosKeepsTheInvariants) {
  for (std::uint64_t round = 0; round < 40 && !HasFatalFailure(); ++round) {
    SCOPED_TRACE("UBLKD_SEED=" + std::to_string(base_seed()) + " round " + std::to_string(round));
    Pick pick(base_seed() * 31 + round);
    std::vector<TenantSpec> specs(pick(1, pick(0, 2) == 0 ? 24 : 10));
    for (TenantSpec& s : specs) {
      s.depth = pick(1, 64);
      s.weight = pick(1, weight_max);
      s.service_ns = pick(0, 5) == 0 ? 0 : pick(1, 3000) * us;
      s.think_ns = pick(1, 200) * us;
      s.start_ns = pick(0, 20) * ms;
      s.stop_ns = pick(200, 300) * ms;
      if (pick(0, 1) == 0) {
        s.on_ns = pick(1, 20) * ms;
        s.off_ns = pick(1, 40) * ms;
      }
      if (pick(0, 3) == 0) s.accept = pick(1, 4);
    }
    const std::uint32_t depths[] = {pick(1, 4), pick(8, 16), pick(1, 300)};  // spare tags begin at 8
    ShareWorld world(depths[pick(0, 2)], {}, specs);
    while (world.now_ns < 300 * ms && !HasFatalFailure()) {
      world.run(world.now_ns + pick(1, 10) * ms);
      const std::size_t one = pick(0, static_cast<std::uint32_t>(specs.size()) - 1);
      switch (pick(0, 6)) {
        case 0: world.fail(one); break;
        case 1: world.tenant(one).state.timeout_ns = pick(0, 2) * 500 * us; break;
        case 2: world.end_expired(); break;
        case 3: world.dispatcher.set_weight(world.tenant(one).state, pick(1, weight_max)); break;
        case 4:
          world.dispatcher.configure({.policy = static_cast<SharePolicy>(pick(0, 2)), .grace_ns = pick(1, 20) * ms,
                                      .idle_after_ns = pick(1, 50) * ms});
          break;
        case 5:
          world.fail(one);
          if (world.tenant(one).state.held != 0) break;
          world.leave(one);
          world.rejoin(one);
          break;
        default: break;
      }
    }
    world.run(2 * second);
    EXPECT_EQ(world.dispatcher.pool().free(), world.dispatcher.pool().depth()) << "all tags are free when all is idle";
    EXPECT_EQ(world.dispatcher.waiting(), 0u);
  }
}

}  // namespace
}  // namespace ublkd::sim
