// ControlRing: commands to /dev/ublk-control over a ring of its own, each with a deadline.
//
// Thread rule: the control thread.
// Invariants:
//   1. A command's buffer lives until the kernel has answered, also when nobody waits any more.
//   2. At most commands_max commands are outstanding.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <span>
#include <string>
#include <unordered_map>

#include "abi/ublk_cmd.h"
#include "base/fd.h"
#include "control/asio.h"
#include "ring/ring.h"

namespace ublkd {

inline constexpr const char* control_node_default = "/dev/ublk-control";
inline constexpr std::chrono::seconds control_deadline{30};

// One command on its way. wait() may be called again after it timed out.
class ControlCommand {
 public:
  // Result of the command (>= 0), or its error; error timeout when there is no answer yet.
  Task<Result<std::int32_t>> wait(std::chrono::milliseconds limit);
  [[nodiscard]] bool answered() const { return event_.happened(); }

  // The command's buffer: what was sent, or what the kernel answered.
  template <typename T>
  [[nodiscard]] T buffer_as() const {
    static_assert(sizeof(T) <= buffer_bytes);
    T value;
    std::memcpy(&value, buffer_.data(), sizeof value);
    return value;
  }

 private:
  friend class ControlRing;
  static constexpr std::size_t buffer_bytes = 256;
  ControlCommand(asio::io_context& io, std::string name, std::string subject)
      : event_(io), name_(std::move(name)), subject_(std::move(subject)) {}
  Event event_;
  std::string name_;
  std::string subject_;
  std::int32_t result_ = 0;
  alignas(8) std::array<std::byte, buffer_bytes> buffer_{};
};

struct ControlRequest {
  const char* name = "";  // for messages: "ADD_DEV"
  std::uint32_t op = 0;
  std::uint32_t device_id = 0xffffffff;
  std::uint64_t data = 0;
  std::span<const std::byte> buffer = {};  // copied; the kernel may write as much back
};

class ControlRing {
 public:
  // Opens node; errors: not_found (module missing), permission, what Ring::make says.
  [[nodiscard]] static Result<std::unique_ptr<ControlRing>> open(asio::io_context& io, const std::string& node);
  ~ControlRing();
  ControlRing(const ControlRing&) = delete;
  ControlRing& operator=(const ControlRing&) = delete;

  [[nodiscard]] std::shared_ptr<ControlCommand> send(const ControlRequest& request);

  // UBLK_F_* bits that this kernel knows.
  Task<Result<std::uint64_t>> features();

 private:
  static constexpr std::uint32_t commands_max = 128;
  ControlRing(asio::io_context& io, Ring ring, Fd node, Fd event);
  void watch();
  void reap();

  asio::io_context& io_;
  Ring ring_;
  Fd node_;
  asio::posix::stream_descriptor event_;
  std::uint64_t last_id_ = 0;
  std::unordered_map<std::uint64_t, std::shared_ptr<ControlCommand>> outstanding_;
};

}  // namespace ublkd
