#include "control/life_state.h"

#include <gtest/gtest.h>

#include <string>

namespace ublkd {
namespace {

using enum LifeState;

TEST(LifeState, GoneIsTheEnd) {
  for (int to = 0; to <= static_cast<int>(stuck); ++to)
    EXPECT_FALSE(life_transition_allowed(gone, static_cast<LifeState>(to)));
}

TEST(LifeState, EveryStateButTheFirstCanBeReachedAndEveryStateButTheLastLeft) {
  for (int s = 0; s <= static_cast<int>(stuck); ++s) {
    bool reached = s == 0, left = static_cast<LifeState>(s) == gone;
    for (int t = 0; t <= static_cast<int>(stuck); ++t) {
      reached |= life_transition_allowed(static_cast<LifeState>(t), static_cast<LifeState>(s));
      left |= life_transition_allowed(static_cast<LifeState>(s), static_cast<LifeState>(t));
    }
    EXPECT_TRUE(reached && left) << life_state_name(static_cast<LifeState>(s));
  }
}

TEST(LifeState, NothingIsDeletedBeforeItIsStopped) {
  for (const LifeState s : {attaching, starting, live}) EXPECT_FALSE(life_transition_allowed(s, deleting));
}

TEST(LifeState, NamesAreDistinct) { EXPECT_NE(std::string(life_state_name(live)), life_state_name(stuck)); }

}  // namespace
}  // namespace ublkd
