#include "tests/contract/test_port.h"

#include <algorithm>

#include "base/clock.h"

namespace ublkd {

namespace {

constexpr std::uint64_t unwatched = std::uint64_t{1} << 63;
constexpr std::uint64_t ns_per_s = 1'000'000'000;

}  // namespace

TestPort::TestPort() {
  done_ = &done_list_;
  now_ns_ = &now_;
  read_clock();
}

TestPort::~TestPort() {
  if (ring_made_) ::io_uring_queue_exit(&ring_);
}

Result<std::unique_ptr<TestPort>> TestPort::make(const std::vector<int>& fds, FileNames names, Entries entries) {
  std::unique_ptr<TestPort> port(new TestPort);
  port->entries_ = entries;
  const unsigned flags = entries == Entries::big ? IORING_SETUP_SQE128 | IORING_SETUP_CQE32 : 0;
  if (const int rc = ::io_uring_queue_init(ring_entries, &port->ring_, flags); rc != 0)
    return fail_errno(-rc, "make", "io_uring");
  port->ring_made_ = true;
  UBLKD_CHECK(fds.size() <= backing_files_max);
  for (std::size_t i = 0; i < fds.size(); ++i) port->files_[i] = {fds[i], 0};
  if (names == FileNames::descriptors || fds.empty()) return port;
  if (const int rc = ::io_uring_register_files(&port->ring_, fds.data(), static_cast<unsigned>(fds.size()));
      rc != 0)
    return fail_errno(-rc, "register files with", "io_uring");
  for (std::size_t i = 0; i < fds.size(); ++i)
    port->files_[i] = {static_cast<std::int32_t>(i), IOSQE_FIXED_FILE};
  return port;
}

Result<void> TestPort::register_memory(const std::vector<std::byte*>& data) {
  std::vector<iovec> pages;
  for (std::byte* at : data) pages.push_back({at, page_bytes});
  const int rc = ::io_uring_register_buffers(&ring_, pages.data(), static_cast<unsigned>(pages.size()));
  if (rc != 0) return fail_errno(-rc, "register buffers with", "io_uring");
  registered_bytes_ = page_bytes;
  return {};
}

void TestPort::read_clock() {
  now_ = monotonic_ns();
}

io_uring_sqe* TestPort::entry() {
  io_uring_sqe* sqe = ::io_uring_get_sqe(&ring_);
  if (sqe == nullptr) {
    ::io_uring_submit(&ring_);
    sqe = ::io_uring_get_sqe(&ring_);
  }
  UBLKD_CHECK(sqe != nullptr);
  sqe[0] = io_uring_sqe{};
  if (entries_ == Entries::big) sqe[1] = io_uring_sqe{};
  return sqe;
}

io_uring_sqe* TestPort::sqe(Request& rq, std::uint8_t step) {
  UBLKD_CHECK(rq.state == RequestState::started && table_.at(rq.index) == &rq);
  ++in_ring_[rq.index];
  io_uring_sqe* sqe = entry();
  sqe->user_data = user_data(rq, step);
  return sqe;
}

io_uring_sqe* TestPort::sqe_big(Request& rq, std::uint8_t step) {
  UBLKD_CHECK(entries_ == Entries::big);
  return sqe(rq, step);
}

io_uring_sqe* TestPort::sqe_unwatched() {
  io_uring_sqe* sqe = entry();
  sqe->user_data = unwatched;
  return sqe;
}

std::uint64_t TestPort::user_data(const Request& rq, std::uint8_t step) const {
  return (std::uint64_t{rq.index} << 8) | step;
}

void TestPort::wake_at(std::uint64_t deadline_ns) {
  wake_ns_ = std::min(wake_ns_, deadline_ns);
}

void TestPort::wait(std::uint64_t wait_ns) {
  if (wake_ns_ != time_never_ns) wait_ns = std::min(wait_ns, wake_ns_ > now_ ? wake_ns_ - now_ : 0);
  ::io_uring_submit(&ring_);
  io_uring_cqe* cqe = nullptr;
  __kernel_timespec ts{};
  ts.tv_sec = static_cast<long long>(wait_ns / ns_per_s);
  ts.tv_nsec = static_cast<long long>(wait_ns % ns_per_s);
  ::io_uring_wait_cqe_timeout(&ring_, &cqe, &ts);
  read_clock();
}

void TestPort::turn(TargetQueue& queue, std::uint64_t wait_ns) {
  wait(wait_ns);
  io_uring_cqe* cqe = nullptr;
  while (::io_uring_peek_cqe(&ring_, &cqe) == 0) {
    const std::uint64_t name = cqe->user_data;
    const std::int32_t result = cqe->res;
    ::io_uring_cqe_seen(&ring_, cqe);
    deliver(queue, name, result);
  }
  if (wake_ns_ > now_) return;
  wake_ns_ = time_never_ns;
  queue.on_deadline();
}

void TestPort::deliver(TargetQueue& queue, std::uint64_t user_data_value, std::int32_t result) {
  if (user_data_value == unwatched || user_data_value == LIBURING_UDATA_TIMEOUT) return;
  Request& rq = *table_.at(user_data_value >> 8);
  UBLKD_CHECK(rq.state == RequestState::started && in_ring_[rq.index] > 0);
  --in_ring_[rq.index];
  queue.on_cqe(rq, static_cast<std::uint8_t>(user_data_value & 0xff), result);
}

RequestList TestPort::take_done() {
  RequestList done = done_list_;
  done_list_.clear();
  for (const Request* rq = done.front(); rq != nullptr; rq = rq->next) UBLKD_CHECK(in_ring_[rq->index] == 0);
  return done;
}

}  // namespace ublkd
