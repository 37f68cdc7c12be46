#include "ublkd/result.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace ublkd {
namespace {

TEST(Error, ReadsAsOneLine) {
  EXPECT_EQ(errno_error(EACCES, "open", "/x", "run as root").text(), "open /x: Permission denied; run as root");
  EXPECT_EQ(Error({ErrorKind::invalid, 0, "add", "dev", "no such thing"}).text(), "add dev: no such thing");
}

TEST(Error, KindFollowsErrno) {
  EXPECT_EQ(errno_error(EBUSY, "", "").kind, ErrorKind::busy);
  EXPECT_EQ(errno_error(ENOENT, "", "").kind, ErrorKind::not_found);
  EXPECT_EQ(errno_error(EIO, "", "").kind, ErrorKind::io);
}

}  // namespace
}  // namespace ublkd
