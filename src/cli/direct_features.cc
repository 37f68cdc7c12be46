#include "cli/direct_features.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/utsname.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "abi/features.h"
#include "abi/ublk_cmd.h"
#include "base/clock.h"
#include "base/fd.h"
#include "ring/ring.h"

namespace ublkd::cli {

namespace {

void prepare(Ring& ring, int node_fd, std::uint64_t& mask) {
  io_uring_sqe* e = ring.sqe();
  e->opcode = IORING_OP_URING_CMD;
  e->fd = node_fd;
  e->cmd_op = abi::u_cmd_get_features;
  abi::CtrlCmd cmd{};
  cmd.dev_id = 0xffffffff;
  cmd.queue_id = 0xffff;
  cmd.len = sizeof mask;
  cmd.addr = reinterpret_cast<std::uint64_t>(&mask);
  std::memcpy(e->cmd, &cmd, sizeof cmd);
}

std::optional<std::int32_t> wait_answer(Ring& ring) {
  const std::uint64_t limit_ns = static_cast<std::uint64_t>(features_time_max.count()) * 1'000'000;
  const std::uint64_t deadline_ns = monotonic_ns() + limit_ns;
  std::optional<std::int32_t> answer;
  while (!answer && monotonic_ns() < deadline_ns) {
    if (const int e = ring.enter(1, monotonic_ns(), deadline_ns); e < 0) return e;
    ring.for_each_cqe([&](const io_uring_cqe& cqe) { answer = cqe.res; });
  }
  return answer;
}

}  // namespace

Result<std::uint64_t> query_features(const std::string& node) {
  auto fd = open_file(node, O_RDWR);
  if (!fd) {
    Error e = fd.error();
    e.advice = e.errno_value == ENOENT ? "load the driver: modprobe ublk_drv" : "run as root";
    return Unexpected(std::move(e));
  }
  auto made = Ring::make({.sq_entries = 4, .cq_entries = 8, .files = 0, .entry_size = EntrySize::big_sqe});
  if (!made) return Unexpected(made.error());
  // On the heap, and left there when the kernel does not answer: it may still write the mask.
  auto ring = std::make_unique<Ring>(std::move(*made));
  auto mask = std::make_unique<std::uint64_t>(0);
  prepare(*ring, fd->get(), *mask);
  const auto answer = wait_answer(*ring);
  if (!answer) {
    static_cast<void>(ring.release());
    static_cast<void>(mask.release());
    static_cast<void>(fd->release());
    return fail(ErrorKind::timeout, "GET_FEATURES on", node, "no answer; look for ublk in dmesg");
  }
  if (*answer == -EOPNOTSUPP || *answer == -EINVAL)
    return fail_errno(-*answer, "GET_FEATURES on", node, "the kernel is older than 6.5");
  if (*answer < 0) return fail_errno(-*answer, "GET_FEATURES on", node);
  return *mask;
}

nlohmann::json features_json(const std::string& kernel_release, std::uint64_t mask) {
  nlohmann::json list = nlohmann::json::array();
  for (unsigned bit = 0; bit < 64; ++bit) {
    const bool there = ((mask >> bit) & 1) != 0;
    if (!there && bit >= abi::features_known) continue;
    const std::string name = abi::feature_names(std::uint64_t{1} << bit).front();
    list.push_back({{"name", name}, {"bit", bit}, {"kernel", there}, {"used", false}});
  }
  return {{"kernel", kernel_release}, {"mask", fmt::format("{:#x}", mask)}, {"features", std::move(list)}};
}

std::string kernel_release() {
  utsname name{};
  return ::uname(&name) == 0 ? name.release : "unknown";
}

}  // namespace ublkd::cli
