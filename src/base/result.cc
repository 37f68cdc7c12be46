#include "ublkd/result.h"

#include <cerrno>
#include <system_error>

#include "ublkd/request.h"

namespace ublkd {

namespace {

ErrorKind kind_of(int errno_value) {
  switch (errno_value) {
    case EINVAL: case ERANGE: return ErrorKind::invalid;
    case ENOENT: case ENODEV: case ENXIO: return ErrorKind::not_found;
    case EEXIST: return ErrorKind::exists;
    case EBUSY: case ETXTBSY: return ErrorKind::busy;
    case EPERM: case EACCES: case EROFS: return ErrorKind::permission;
    case EOPNOTSUPP: case ENOSYS: return ErrorKind::unsupported;
    case ENOSPC: case EDQUOT: return ErrorKind::no_space;
    case ENOMEM: return ErrorKind::no_memory;
    case EMFILE: case ENFILE: case E2BIG: return ErrorKind::limit;
    case ETIMEDOUT: case ETIME: return ErrorKind::timeout;
    default: return ErrorKind::io;
  }
}

}  // namespace

std::string Error::text() const {
  std::string s = operation;
  if (!subject.empty()) s += (s.empty() ? "" : " ") + subject;
  if (errno_value != 0)
    s += ": " + std::error_code(errno_value, std::generic_category()).message();
  if (!advice.empty()) s += (errno_value != 0 ? "; " : ": ") + advice;
  return s;
}

Error errno_error(int errno_value, std::string operation, std::string subject, std::string advice) {
  return Error{kind_of(errno_value), errno_value, std::move(operation), std::move(subject),
               std::move(advice)};
}

Unexpected fail(ErrorKind kind, std::string operation, std::string subject, std::string advice) {
  return Unexpected(Error{kind, 0, std::move(operation), std::move(subject), std::move(advice)});
}

Unexpected fail_errno(int errno_value, std::string operation, std::string subject,
                      std::string advice) {
  return Unexpected(
      errno_error(errno_value, std::move(operation), std::move(subject), std::move(advice)));
}

const char* kind_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid: return "invalid";
    case ErrorKind::not_found: return "not_found";
    case ErrorKind::exists: return "exists";
    case ErrorKind::busy: return "busy";
    case ErrorKind::permission: return "permission";
    case ErrorKind::unsupported: return "unsupported";
    case ErrorKind::no_space: return "no_space";
    case ErrorKind::no_memory: return "no_memory";
    case ErrorKind::limit: return "limit";
    case ErrorKind::timeout: return "timeout";
    case ErrorKind::io: return "io";
    case ErrorKind::internal: return "internal";
  }
  return "internal";
}

const char* op_name(Op op) {
  switch (op) {
    case Op::read: return "read";
    case Op::write: return "write";
    case Op::flush: return "flush";
    case Op::discard: return "discard";
    case Op::write_zeroes: return "write_zeroes";
  }
  return "?";
}

}  // namespace ublkd
