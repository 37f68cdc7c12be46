#include "api/run_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>

namespace ublkd::api {

namespace {

constexpr std::size_t pid_text_max = 32;

// Pid text in a lock file held by another process; empty while it has not written it yet.
std::string pid_in(int fd) {
  char text[pid_text_max];
  const ssize_t n = ::pread(fd, text, sizeof text, 0);
  std::string pid(text, n > 0 ? static_cast<std::size_t>(n) : 0);
  const auto end =
      std::find_if_not(pid.begin(), pid.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  pid.erase(end, pid.end());
  return pid;
}

}  // namespace

Result<RunDir> RunDir::create(const std::string& path) {
  if (path.empty() || path.front() != '/')
    return fail(ErrorKind::invalid, "run directory", path, "must be an absolute path");
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST)
    return fail_errno(errno, "create run directory", path, "run as root, or choose another with --run-dir");
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0) return fail_errno(errno, "look at run directory", path);
  if (!S_ISDIR(st.st_mode)) return fail(ErrorKind::invalid, "run directory", path, "is not a directory");
  if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return fail(ErrorKind::permission, "run directory", path,
                "others may write into it; chmod 0755 it, or choose another with --run-dir");
  if (::access(path.c_str(), W_OK | X_OK) != 0)
    return fail_errno(errno, "write into run directory", path,
                      "run as its owner, or choose another with --run-dir");
  return RunDir(path);
}

Result<InstanceLock> InstanceLock::take(const RunDir& run_dir) {
  auto fd = open_file(run_dir.lock_path(), O_RDWR | O_CREAT | O_NOFOLLOW, 0644);
  if (!fd) return Unexpected(fd.error());
  if (::flock(fd->get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return fail_errno(errno, "lock", run_dir.lock_path());
    const std::string pid = pid_in(fd->get());
    return fail(ErrorKind::busy,
                pid.empty() ? "another ublkd already serves" : "ublkd pid " + pid + " already serves",
                run_dir.path(), "use it through ublkctl, stop it, or give this one its own --run-dir");
  }
  const std::string text = std::to_string(::getpid()) + "\n";
  if (::ftruncate(fd->get(), 0) != 0 ||
      ::pwrite(fd->get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    return fail_errno(errno, "write", run_dir.lock_path());
  return InstanceLock(std::move(*fd));
}

std::string default_socket_path() {
  return std::string(run_dir_default) + "/ublkd.sock";
}

}  // namespace ublkd::api
