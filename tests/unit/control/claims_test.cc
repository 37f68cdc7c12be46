#include "control/claims.h"

#include <gtest/gtest.h>

namespace ublkd {
namespace {

BackingClaims::Claim whole(std::uint64_t inode, bool writable) { return {1, inode, 0, 4096, writable}; }

TEST(Claims, A37_ASecondWritableUseNamesTheFirst) {
  Claims claims;
  auto first = claims.claim(whole(7, true), "a", "/x");
  ASSERT_TRUE(first.has_value());
  auto second = claims.claim(whole(7, true), "b", "/link-to-x");
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().kind, ErrorKind::busy);
  EXPECT_NE(second.error().text().find("device a"), std::string::npos);
  EXPECT_NE(second.error().text().find("/x"), std::string::npos);
}

TEST(Claims, ReadersShareAndAWriterIsRefused) {
  Claims claims;
  auto first = claims.claim(whole(7, false), "a", "/x");
  auto second = claims.claim(whole(7, false), "b", "/x");
  EXPECT_TRUE(second.has_value());
  EXPECT_FALSE(claims.claim(whole(7, true), "c", "/x").has_value());
}

TEST(Claims, DisjointRangesDoNotMeet) {
  Claims claims;
  auto first = claims.claim({1, 7, 0, 4096, true}, "a", "/x");
  auto next = claims.claim({1, 7, 4096, 4096, true}, "b", "/x");
  EXPECT_TRUE(next.has_value());
  EXPECT_FALSE(claims.claim({1, 7, 4095, 2, true}, "c", "/x").has_value());
}

TEST(Claims, AReleasedClaimIsFree) {
  Claims claims;
  { auto first = claims.claim(whole(7, true), "a", "/x"); }
  EXPECT_TRUE(claims.claim(whole(7, true), "b", "/x").has_value());
}

TEST(Claims, WhatDevicesShareIsMadeOnceAndGoesWithTheLast) {
  Claims claims;
  int made = 0;
  const BackingClaims::Make make = [&]() -> Result<std::shared_ptr<void>> { return std::make_shared<int>(++made); };
  auto first = claims.share("drive", make);
  auto second = claims.share("drive", make);
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(made, 1);
  first = second = std::shared_ptr<void>();
  auto third = claims.share("drive", make);
  EXPECT_EQ(made, 2);
  const BackingClaims::Make busy = []() -> Result<std::shared_ptr<void>> {
    return fail(ErrorKind::busy, "open", "/x", "");
  };
  EXPECT_FALSE(claims.share("other", busy).has_value());
  EXPECT_TRUE(claims.share("other", make).has_value()) << "a failure is not kept";
}

}  // namespace
}  // namespace ublkd
