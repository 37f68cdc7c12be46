#include "control/device.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "base/log.h"
#include "control/blocking.h"
#include "control/device_lane.h"
#include "control/params.h"

namespace ublkd {

namespace {

using namespace std::chrono_literals;

constexpr auto open_backing_deadline = 120s;  // preallocating a large file takes its time
constexpr auto node_deadline = 10s;           // for udev to be done with a fresh node
constexpr auto node_retry = 20ms;
constexpr auto scheduler_deadline = 5s;

}  // namespace

Device::Device(ControlEnvironment& env, DeviceConfig config, TagSet& set)
    : env_(env), config_(std::move(config)), set_(set), named_by_kernel_(config_.name.empty()) {
  if (named_by_kernel_) config_.name = "(new)";
}

Device::~Device() = default;

void Device::become(LifeState to) {
  UBLKD_CHECK(life_transition_allowed(state_, to));
  log_debug("device {}: {} -> {}", config_.name, life_state_name(state_), life_state_name(to));
  state_ = to;
}

std::string Device::path() const {
  return state_ < LifeState::attaching || state_ == LifeState::gone ? std::string{} : "/dev/" + disk_name();
}

std::vector<const DeviceQueue*> Device::queues() const {
  std::vector<const DeviceQueue*> out;
  for (const auto& lane : lanes_) out.push_back(lane->dq.get());
  return out;
}

Result<void> Device::cancelled() const {
  if (!cancel_) return {};
  return fail(ErrorKind::busy, "start device", config_.name, "given up, it is being deleted");
}

// --- start ------------------------------------------------------------------------------------

Task<Result<void>> Device::start() {
  start_ended_ = std::make_unique<Event>(*env_.io);
  auto result = co_await start_steps();
  if (!result) {
    auto cleaned = co_await clean_up();
    if (!cleaned) log_error("device {}: {}", config_.name, cleaned.error().text());
  }
  start_ended_->notify();
  co_return result;
}

Task<Result<void>> Device::start_steps() {
  become(LifeState::opening);
  auto opened = co_await open_backing();
  if (!opened) co_return opened;
  become(LifeState::adding);
  auto added = co_await add_to_kernel();
  if (!added) co_return added;
  become(LifeState::attaching);
  auto set = co_await set_params();
  if (!set) co_return set;
  auto node = co_await open_char_node();
  if (!node) co_return node;
  auto made = make_lanes();
  if (!made) co_return made;
  auto attached = co_await attach_lanes();
  if (!attached) co_return attached;
  become(LifeState::starting);
  auto started = co_await start_in_kernel();
  if (!started) co_return started;
  co_await choose_scheduler();
  if (auto c = cancelled(); !c) co_return c;
  become(LifeState::live);
  co_return Result<void>{};
}

Task<Result<void>> Device::open_backing() {
  OpenContext context;
  context.device_name = config_.name;
  context.read_only = config_.read_only;
  context.logical_block_bytes = config_.logical_block_bytes;
  context.claims = env_.claims;
  context.types = env_.types;
  auto opened = open_target(config_.target, context);
  if (!opened) co_return Unexpected(opened.error());
  target_ = std::move(*opened);
  geometry_ = target_->geometry();
  geometry_.read_only |= config_.read_only;
  auto buffers = BufferChoice::make(config_, geometry_, set_, env_.features);
  if (!buffers) co_return Unexpected(buffers.error());
  buffers_ = std::move(*buffers);
  geometry_ = buffers_->fit(geometry_, config_.io_bytes_max);
  if (geometry_.depth != 0 && geometry_.depth < set_.config().depth)
    log_notice("device {}: tag set {} has {} tags per queue, its backing takes {} at once: more wait in the kernel",
               config_.name, set_.config().name, set_.config().depth, geometry_.depth);
  co_return cancelled();
}

Task<Error> Device::explain_add_error(Error error) {
  if (error.errno_value == EEXIST && config_.id) {
    error.advice = "device number " + std::to_string(*config_.id) + " is in use";
    const abi::DevInfo none{};
    const auto command = env_.ring->send({.name = "GET_DEV_INFO",
                                          .op = abi::u_cmd_get_dev_info,
                                          .device_id = *config_.id,
                                          .buffer = std::as_bytes(std::span(&none, 1))});
    const auto got = co_await command->wait(control_deadline);
    if (got) error.advice += " by pid " + std::to_string(command->buffer_as<abi::DevInfo>().ublksrv_pid);
    error.advice += "; leave the id out, or take a free one";
  } else if (error.errno_value == EACCES || error.errno_value == ENOSPC) {
    error.advice = "the driver's limit of devices is reached; raise the module option ublk_drv.ublks_max";
  } else if (error.errno_value == EPERM) {
    error.advice = "CAP_SYS_ADMIN is missing";
  }
  co_return error;
}

Task<Result<void>> Device::add_to_kernel() {
  const auto lanes = static_cast<std::uint16_t>(set_.hw_queues().size());
  abi::DevInfo asked{};
  asked.nr_hw_queues = lanes;
  asked.queue_depth = static_cast<std::uint16_t>(config_.depth);
  asked.max_io_buf_bytes = geometry_.io_bytes_max;
  asked.dev_id = config_.id.value_or(0xffffffff);
  // The driver keeps the slots of new requests in a FIFO, whose least size is two: a queue of one slot it refuses.
  const bool batch = config_.depth > 1;
  flags_asked_ = abi::f_cmd_ioctl_encode | (buffers_->zero_copy() ? abi::f_auto_buf_reg : 0) |
                 (batch ? env_.features & abi::f_batch_io : 0);
  asked.flags = flags_asked_;
  const auto command = env_.ring->send({.name = "ADD_DEV",
                                        .op = abi::u_cmd_add_dev,
                                        .device_id = asked.dev_id,
                                        .buffer = std::as_bytes(std::span(&asked, 1))});
  const auto result = co_await command->wait(control_deadline);
  if (!result) {
    Error explained = co_await explain_add_error(result.error());
    co_return Unexpected(std::move(explained));
  }
  info_ = command->buffer_as<abi::DevInfo>();
  if (named_by_kernel_) config_.name = disk_name();
  if (buffers_->zero_copy() && (flags_dropped() & abi::f_auto_buf_reg) != 0)
    co_return fail(ErrorKind::unsupported, "ADD_DEV", config_.name,
                   "the driver said that it has AUTO_BUF_REG, and cleared it; set buffer_mode: copy");
  if (flags_dropped() != 0)
    log_notice("device {}: kernel does not have flags {:#x}", config_.name, flags_dropped());
  if (info_.nr_hw_queues < lanes)
    log_notice("device {}: {} of {} hardware queues serve it: the kernel gives one queue per CPU", config_.name,
               info_.nr_hw_queues, lanes);
  if (info_.max_io_buf_bytes < geometry_.io_bytes_max) geometry_.io_bytes_max = info_.max_io_buf_bytes;
  co_return Result<void>{};
}

Task<Result<void>> Device::set_params() {
  const abi::Params params = params_of(geometry_);
  const auto command = env_.ring->send({.name = "SET_PARAMS",
                                        .op = abi::u_cmd_set_params,
                                        .device_id = info_.dev_id,
                                        .buffer = std::as_bytes(std::span(&params, 1))});
  const auto result = co_await command->wait(control_deadline);
  if (!result) co_return Unexpected(result.error());
  co_return cancelled();
}

// udev may have the fresh node open, or not yet have given it its owner: nothing tells when that
// has changed, so it is tried again until a deadline.
Task<Result<void>> Device::open_char_node() {
  const std::string path = "/dev/ublkc" + std::to_string(info_.dev_id);
  const Deadline deadline = after(node_deadline);
  for (;;) {
    auto fd = open_file(path, O_RDWR);
    if (fd) {
      char_node_ = std::move(*fd);
      co_return cancelled();
    }
    const int e = fd.error().errno_value;
    const bool may_pass = e == EBUSY || e == EACCES || e == ENOENT || e == EPERM;
    if (!may_pass || cancel_ || std::chrono::steady_clock::now() >= deadline) {
      struct stat st{};
      Error error = fd.error();
      if (::stat(path.c_str(), &st) == 0)
        error.advice = "owner " + std::to_string(st.st_uid) + ":" + std::to_string(st.st_gid) + ", mode " +
                       fmt::format("{:04o}", st.st_mode & 07777);
      co_return Unexpected(std::move(error));
    }
    asio::steady_timer timer(*env_.io, node_retry);
    co_await timer.async_wait(asio::use_awaitable);
  }
}

void Device::set_weight(std::uint32_t weight) {
  config_.weight = weight;
  if (share_number_) set_.set_weight(*share_number_, weight);
  for (const auto& lane : lanes_) lane->hw.set_weight(*lane->dq, weight);
  log_info("device {}: weight {}", config_.name, weight);
}

Result<void> Device::make_lanes() {
  share_number_ = set_.join(config_.weight);
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t stride = abi::desc_stride_bytes(sizeof(abi::IoDesc), page);
  for (std::uint16_t q = 0; q < info_.nr_hw_queues; ++q) {
    const std::size_t bytes = (info_.queue_depth * sizeof(abi::IoDesc) + page - 1) / page * page;
    void* map = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, char_node_.get(),
                       static_cast<off_t>(q * stride));
    if (map == MAP_FAILED) return fail_errno(errno, "map descriptors of queue " + std::to_string(q), path());
    desc_maps_.emplace_back(map, bytes);
    HwQueue& hw = *set_.hw_queues()[q];
    DeviceQueueSpec spec{.queue_id = q,
                         .slots = info_.queue_depth,
                         .ublkc_fd = char_node_.get(),
                         .descs = static_cast<const abi::IoDesc*>(map),
                         .geometry = geometry_,
                         .backing_fds = target_->backing_fds(),
                         .batch = (info_.flags & abi::f_batch_io) != 0,
                         .zero_copy = buffers_->zero_copy(),
                         .first_buffer = buffers_->first_buffer(q)};
    auto dq = DeviceQueue::make(hw, spec);
    if (!dq) return Unexpected(dq.error());
    auto target_queue = target_->open_queue(**dq);
    if (!target_queue) return Unexpected(target_queue.error());
    (*dq)->set_target(std::move(*target_queue));
    (*dq)->number = *share_number_;
    (*dq)->share.weight = config_.weight;
    (*dq)->timeout_ns = config_.timeout_ns;
    if (auto r = hw.reserve(**dq); !r) return r;
    lanes_.push_back(std::make_unique<Lane>(hw, std::move(*dq), *env_.io));
  }
  return {};
}

Task<Result<void>> Device::attach_lanes() {
  asio::io_context& io = *env_.io;
  for (const auto& owned : lanes_) {
    Lane* lane = owned.get();
    lane->attached = true;
    lane->hw.attach(
        *lane->dq,
        [lane, &io](Result<void> r) {
          asio::post(io, [lane, r = std::move(r)] {
            lane->attach_result = r;
            lane->attach_done.notify();
          });
        },
        [lane, &io](std::int32_t error) {
          asio::post(io, [lane, error] {
            lane->end_error = error;
            lane->ended.notify();
          });
        });
    const bool answered = co_await lane->attach_done.wait_until(after(control_deadline));
    if (!answered)
      co_return fail(ErrorKind::timeout, "attach device", config_.name, "its hardware queue did not answer");
    if (!lane->attach_result) {
      lane->attached = false;
      co_return lane->attach_result;
    }
  }
  co_return cancelled();
}

Task<Result<void>> Device::start_in_kernel() {
  const auto command = env_.ring->send({.name = "START_DEV",
                                        .op = abi::u_cmd_start_dev,
                                        .device_id = info_.dev_id,
                                        .data = static_cast<std::uint64_t>(::getpid())});
  const auto result = co_await command->wait(control_deadline);
  if (!result) {
    Error error = result.error();
    for (const auto& lane : lanes_)
      if (lane->end_error != 0)
        error.advice = "FETCH failed on queue: " + errno_error(-lane->end_error, "", "").text();
    co_return Unexpected(std::move(error));
  }
  struct stat st{};
  const std::string node = path();
  const Deadline deadline = after(node_deadline);
  while (::stat(node.c_str(), &st) != 0 || !S_ISBLK(st.st_mode)) {
    if (cancel_ || std::chrono::steady_clock::now() >= deadline)
      co_return fail(ErrorKind::timeout, "wait for node", node,
                     "started, but neither devtmpfs nor udev made the node; is /dev a devtmpfs?");
    asio::steady_timer timer(*env_.io, node_retry);
    co_await timer.async_wait(asio::use_awaitable);
  }
  co_return Result<void>{};
}

// A failure here costs speed, not data: it is said, and the device serves. Changing the scheduler
// waits for the requests in flight, so it is done off this thread.
Task<void> Device::choose_scheduler() {
  const std::string attribute = "/sys/block/" + disk_name() + "/queue/scheduler";
  if (config_.scheduler != "kernel") {
    const std::string wanted = config_.scheduler;
    std::function<Result<bool>()> write = [attribute, wanted]() -> Result<bool> {
      auto r = write_attribute(attribute, wanted);
      if (!r) return Unexpected(r.error());
      return true;
    };
    const auto done =
        co_await run_blocking<bool>(*env_.io, "set scheduler " + wanted, scheduler_deadline, std::move(write));
    if (!done) log_warning("device {}: {}", config_.name, done.error().text());
  }
  auto text = read_file(attribute, 4096);
  if (!text) co_return;
  const auto open = text->find('['), close = text->find(']');
  scheduler_ = open < close && close != std::string::npos ? text->substr(open + 1, close - open - 1)
                                                          : text->substr(0, text->find('\n'));
}

}  // namespace ublkd
