// RunDir: the directory where a daemon's socket and lock live. InstanceLock: the right to serve it.
//
//   RUN_DIR/               0755, made when it is not there
//   RUN_DIR/ublkd.lock     flock of the living daemon, its pid inside
//   RUN_DIR/ublkd.sock     local API
//
// Thread rule: control thread, before the daemon starts anything.
// Invariants:
//   1. At most one process holds the InstanceLock of a directory; it goes with the process, however
//      that ends. The lock file itself stays, since removing it would let two processes hold locks
//      on two files of the same name.
//   2. The pid in the file means something only while the lock is held.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/fd.h"
#include "ublkd/result.h"

namespace ublkd::api {

inline constexpr const char* run_dir_default = "/run/ublkd";

class RunDir {
 public:
  // Error permission when others than the owner may write into it: they could put their socket in
  // place of ours.
  [[nodiscard]] static Result<RunDir> create(const std::string& path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string socket_path() const { return path_ + "/ublkd.sock"; }
  [[nodiscard]] std::string lock_path() const { return path_ + "/ublkd.lock"; }

 private:
  explicit RunDir(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

class InstanceLock {
 public:
  // Error busy, with the pid of the holder, when another daemon serves the directory.
  [[nodiscard]] static Result<InstanceLock> take(const RunDir& run_dir);

 private:
  explicit InstanceLock(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

// Socket path that belongs to a run directory, for clients.
[[nodiscard]] std::string default_socket_path();

}  // namespace ublkd::api
