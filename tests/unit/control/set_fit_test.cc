#include "control/set_fit.h"

#include <gtest/gtest.h>

#include <array>

namespace ublkd {
namespace {

Result<std::unique_ptr<Target>> no_target(const OptionValues&, const OpenContext&) {
  return fail(ErrorKind::unsupported, "open", "", "not here");
}

constexpr TargetType plain{"plain", "", {}, no_target};
constexpr TargetType wrapper{"wrapper", "", {}, no_target};
constexpr TargetType drive{"drive", "", {}, no_target, true, [](const OptionValues& o) {
                             return static_cast<std::uint32_t>(o.number("takes"));
                           }};
constexpr std::array<const TargetType*, 3> types{&plain, &wrapper, &drive};

DeviceConfig device(const std::string& type, const std::string& set, std::uint64_t takes = 0) {
  DeviceConfig d;
  d.name = type;
  d.tag_set = set;
  d.depth = 128;
  d.target.type = type;
  d.target.options.set("takes", takes);
  return d;
}

TagSetConfig fitted(std::vector<DeviceConfig> devices, TagSetConfig set = {}) {
  set.name = "s";
  fit_to_devices(set, devices, types);
  return set;
}

TEST(SetFit, WithoutDrivesASetHasSmallEntriesAnd128Tags) {
  const TagSetConfig set = fitted({device("plain", "s"), device("drive", "other", 4)});
  EXPECT_EQ(set.ring_entries, RingEntries::small);
  EXPECT_EQ(set.depth, 128u);
}

TEST(SetFit, TheDepthIsWhatTheSmallestDriveTakes) {
  const TagSetConfig set = fitted({device("drive", "s", 1023), device("plain", "s"), device("drive", "s", 31)});
  EXPECT_EQ(set.ring_entries, RingEntries::big);
  EXPECT_EQ(set.depth, 31u);
}

TEST(SetFit, WhatTheConfigSaysStands) {
  TagSetConfig asked;
  asked.depth = 64;
  asked.ring_entries = RingEntries::big;
  const TagSetConfig set = fitted({device("plain", "s")}, asked);
  EXPECT_EQ(set.ring_entries, RingEntries::big);
  EXPECT_EQ(set.depth, 64u);
}

TEST(SetFit, AWrapperNeedsWhatTheTargetInItNeeds) {
  DeviceConfig d = device("wrapper", "s");
  d.target.options.set("target", std::make_shared<const TargetSpec>(device("drive", "", 15).target));
  const TagSetConfig set = fitted({d});
  EXPECT_EQ(set.ring_entries, RingEntries::big);
  EXPECT_EQ(set.depth, 15u);
}

TEST(SetFit, AnOwnSetIsNoDeeperThanTheDrive) {
  EXPECT_EQ(private_set_config(device("drive", "", 15), types).depth, 15u);
  EXPECT_EQ(private_set_config(device("drive", "", 1023), types).depth, 128u);
  EXPECT_EQ(private_set_config(device("drive", "", 15), types).slots_total_max, 128u);
  EXPECT_EQ(private_set_config(device("plain", ""), types).ring_entries, RingEntries::small);
}

TEST(SetFit, A38_ADriveIsRefusedOnASetWithSmallEntries) {
  TagSetConfig set = fitted({device("plain", "s")});
  EXPECT_TRUE(check_fit(set, device("plain", "s"), types).has_value());
  const auto refused = check_fit(set, device("drive", "s"), types);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().kind, ErrorKind::unsupported);
  EXPECT_NE(refused.error().text().find("ring_entries: big"), std::string::npos) << refused.error().text();
  set.ring_entries = RingEntries::big;
  EXPECT_TRUE(check_fit(set, device("drive", "s"), types).has_value());
}

}  // namespace
}  // namespace ublkd
