// Result<T>: a value, or an Error that tells a user what failed, on what, and what to do.
//
// Thread rule: plain values; any thread.
// Invariants:
//   1. An Error is made where the failure is seen (a syscall returns, a key is read) and logged
//      once, by whoever handles it.
//   2. errno values are positive here; only requests and CQEs carry negative ones.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

namespace ublkd {

enum class ErrorKind : std::uint8_t {
  invalid,      // the caller's input is wrong: a config key, an option, a range
  not_found,    // the named thing is not there
  exists,       // the named thing is there already
  busy,         // in use by somebody else (who, when it is known)
  permission,   // a right is missing
  unsupported,  // kernel, target or backing cannot do it
  no_space,
  no_memory,
  limit,     // a named limit would be exceeded
  timeout,   // no answer within the stated time
  io,        // a system call failed otherwise
  internal,  // should not happen; says where
};

struct Error {
  ErrorKind kind = ErrorKind::internal;
  int errno_value = 0;    // positive errno, 0 when none applies
  std::string operation;  // what was tried: "open", "ADD_DEV"
  std::string subject;    // path, key path or device it was tried on
  std::string advice;     // why, and what to do; may be empty

  // One line: "open /x: Permission denied; run as root".
  [[nodiscard]] std::string text() const;
};

template <typename T>
using Result = tl::expected<T, Error>;

using Unexpected = tl::unexpected<Error>;

// Error for a failed system call; the kind follows from errno.
[[nodiscard]] Error errno_error(int errno_value, std::string operation, std::string subject,
                                std::string advice = {});

[[nodiscard]] Unexpected fail(ErrorKind kind, std::string operation, std::string subject,
                              std::string advice);
[[nodiscard]] Unexpected fail_errno(int errno_value, std::string operation, std::string subject,
                                    std::string advice = {});

// Word for a kind as it stands in JSON answers ("not_found").
[[nodiscard]] const char* kind_name(ErrorKind kind);

}  // namespace ublkd
