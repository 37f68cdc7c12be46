// Input of the doctor from the running machine.
#include <fcntl.h>
#include <liburing.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

#include "api/client.h"
#include "base/fd.h"
#include "cli/direct_features.h"
#include "cli/doctor.h"

namespace ublkd::cli {

namespace {

constexpr std::chrono::milliseconds ping_time_max{5'000};

int try_ring(unsigned flags) {
  io_uring ring{};
  const int e = ::io_uring_queue_init(4, &ring, flags);
  if (e < 0) return -e;
  ::io_uring_queue_exit(&ring);
  return 0;
}

int try_open(const std::string& path) {
  const auto fd = open_file(path, O_RDWR);
  return fd ? 0 : fd.error().errno_value;
}

// An unnamed file where the file system has them; elsewhere the right alone is asked for.
int try_write(const std::string& dir) {
  const auto fd = open_file(dir, O_WRONLY | O_TMPFILE, 0600);
  if (fd) return 0;
  const int e = fd.error().errno_value;
  if (e != EOPNOTSUPP && e != EISDIR) return e;
  return ::access(dir.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
}

std::uint64_t soft_limit(int which) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource>(which), &limit) != 0) return 0;
  return limit.rlim_cur == RLIM_INFINITY ? ~std::uint64_t{0} : limit.rlim_cur;
}

}  // namespace

DoctorInput machine_input(const std::string& socket) {
  DoctorInput in;
  in.release = kernel_release();
  in.memlock_bytes = soft_limit(RLIMIT_MEMLOCK);
  in.open_files = soft_limit(RLIMIT_NOFILE);
  in.try_ring = [] { return try_ring(0); };
  in.try_ring_sqe128 = [] { return try_ring(IORING_SETUP_SQE128); };
  in.try_open = try_open;
  in.try_write = try_write;
  in.features = [] { return query_features(control_node); };
  in.ping = [socket]() -> Result<nlohmann::json> {
    auto client = api::ApiClient::connect(socket);
    if (!client) return Unexpected(client.error());
    return client->call("ping", nlohmann::json::object(), ping_time_max);
  };
  return in;
}

}  // namespace ublkd::cli
