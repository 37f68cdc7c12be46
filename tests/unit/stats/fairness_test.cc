#include "stats/fairness.h"

#include <gtest/gtest.h>

#include <array>

namespace ublkd {
namespace {

double index_of(std::vector<double> values) { return jain_index(values).value_or(-1); }

TEST(JainTest, RunsFromOneDeviceWithAllToEachTheSame) {
  EXPECT_DOUBLE_EQ(index_of({5, 5, 5, 5}), 1);
  EXPECT_DOUBLE_EQ(index_of({1, 0, 0, 0}), 0.25);
  EXPECT_DOUBLE_EQ(index_of({1, 3}), 16.0 / 20);
  EXPECT_DOUBLE_EQ(index_of({1e9, 3e9}), 16.0 / 20);
}

TEST(JainTest, IsNothingBelowTwoValuesOrWithoutAny) {
  EXPECT_EQ(jain_index({}), std::nullopt);
  EXPECT_EQ(jain_index(std::array{7.0}), std::nullopt);
  EXPECT_EQ(jain_index(std::array{0.0, 0.0}), std::nullopt);
}

TEST(FairnessTest, CountsTagTimeByWeight) {
  const TimesByDevice before{{"a", {100, 10, 1}}, {"b", {0, 0, 3}}};
  EXPECT_DOUBLE_EQ(fairness_between(before, {{"a", {200, 20, 1}}, {"b", {300, 1, 3}}}).value_or(-1), 1);
  EXPECT_DOUBLE_EQ(fairness_between(before, {{"a", {200, 20, 1}}, {"b", {900, 1, 3}}}).value_or(-1), 0.8);
}

TEST(FairnessTest, OnlyWhoWaitedTakesPart) {
  const TimesByDevice before{{"a", {0, 0, 1}}, {"b", {0, 0, 1}}, {"c", {50, 7, 1}}};
  EXPECT_DOUBLE_EQ(fairness_between(before, {{"a", {9, 1, 1}}, {"b", {9, 1, 1}}, {"c", {999, 7, 1}}}).value_or(-1), 1);
  EXPECT_EQ(fairness_between(before, {{"a", {9, 1, 1}}, {"b", {9, 0, 1}}}), std::nullopt);
}

TEST(FairnessTest, DevicesThatCameOrBeganAnewAreLeftOut) {
  const TimesByDevice before{{"a", {10, 10, 1}}, {"b", {500, 5, 1}}};
  EXPECT_EQ(fairness_between(before, {{"a", {20, 20, 1}}, {"b", {3, 9, 1}}, {"new", {5, 5, 1}}}), std::nullopt);
  EXPECT_EQ(fairness_between({}, {{"a", {20, 20, 1}}, {"b", {3, 9, 1}}}), std::nullopt);
}

}  // namespace
}  // namespace ublkd
