#include "control/control_ring.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ublkd {

Task<Result<std::int32_t>> ControlCommand::wait(std::chrono::milliseconds limit) {
  const bool answered_in_time = co_await event_.wait_until(after(limit));
  if (!answered_in_time)
    co_return fail(ErrorKind::timeout, name_, subject_,
                   "the kernel did not answer within " + std::to_string(limit.count()) + " ms; see dmesg");
  if (result_ < 0) co_return fail_errno(-result_, name_, subject_);
  co_return result_;
}

Result<std::unique_ptr<ControlRing>> ControlRing::open(asio::io_context& io, const std::string& node) {
  auto fd = open_file(node, O_RDWR);
  if (!fd) {
    Error e = fd.error();
    e.advice = e.kind == ErrorKind::not_found
                   ? "the ublk driver is not loaded: modprobe ublk_drv (Linux 6.0 or later); ublkctl doctor tells more"
                   : "run as root, or give the user this node and CAP_SYS_ADMIN; ublkctl doctor tells more";
    return Unexpected(std::move(e));
  }
  auto ring = Ring::make(
      {.sq_entries = commands_max, .cq_entries = 2 * commands_max, .entry_size = EntrySize::big_sqe});
  if (!ring) return Unexpected(ring.error());
  Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.valid()) return fail_errno(errno, "eventfd", "control ring");
  if (const int rc = ring->watch_with(event.get()); rc != 0)
    return fail_errno(-rc, "register eventfd with io_uring", "control ring");
  return std::unique_ptr<ControlRing>(
      new ControlRing(io, std::move(*ring), std::move(*fd), std::move(event)));
}

ControlRing::ControlRing(asio::io_context& io, Ring ring, Fd node, Fd event)
    : io_(io), ring_(std::move(ring)), node_(std::move(node)), event_(io, event.release()) {
  watch();
}

ControlRing::~ControlRing() = default;

void ControlRing::watch() {
  event_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code& ec) {
    if (ec) return;  // we are going
    std::uint64_t ignored;
    (void)!::read(event_.native_handle(), &ignored, sizeof ignored);
    reap();
    watch();
  });
}

void ControlRing::reap() {
  (void)ring_.enter(0, 0, time_never_ns);  // runs the deferred completions
  ring_.for_each_cqe([this](const io_uring_cqe& cqe) {
    const auto it = outstanding_.find(cqe.user_data);
    if (it == outstanding_.end()) return;
    const auto command = std::move(it->second);
    outstanding_.erase(it);
    command->result_ = cqe.res;
    command->event_.notify();
  });
}

std::shared_ptr<ControlCommand> ControlRing::send(const ControlRequest& request) {
  const std::string subject =
      request.device_id == 0xffffffff ? "a new device" : "device " + std::to_string(request.device_id);
  std::shared_ptr<ControlCommand> command(new ControlCommand(io_, request.name, subject));
  if (outstanding_.size() >= commands_max) {
    command->result_ = -EBUSY;
    command->event_.notify();
    return command;
  }
  UBLKD_CHECK(request.buffer.size() <= ControlCommand::buffer_bytes);
  if (!request.buffer.empty()) std::memcpy(command->buffer_.data(), request.buffer.data(), request.buffer.size());
  io_uring_sqe* e = ring_.sqe();
  e->opcode = IORING_OP_URING_CMD;
  e->fd = node_.get();
  e->cmd_op = request.op;
  e->user_data = ++last_id_;
  abi::CtrlCmd cmd{};
  cmd.dev_id = request.device_id;
  cmd.queue_id = 0xffff;
  cmd.len = static_cast<std::uint16_t>(request.buffer.size());
  cmd.addr = request.buffer.empty() ? 0 : reinterpret_cast<std::uint64_t>(command->buffer_.data());
  cmd.data = request.data;
  std::memcpy(e->cmd, &cmd, sizeof cmd);
  outstanding_.emplace(last_id_, command);
  (void)ring_.enter(0, 0, time_never_ns);
  asio::post(io_, [this] { reap(); });  // answered at once, without an event
  return command;
}

Task<Result<std::uint64_t>> ControlRing::features() {
  const std::uint64_t none = 0;
  const auto command = send({.name = "GET_FEATURES",
                             .op = abi::u_cmd_get_features,
                             .device_id = 0,
                             .buffer = std::as_bytes(std::span(&none, 1))});
  const auto result = co_await command->wait(control_deadline);
  if (!result) co_return Unexpected(result.error());
  co_return command->buffer_as<std::uint64_t>();
}

}  // namespace ublkd
