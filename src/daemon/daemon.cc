#include "daemon/daemon.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "control/asio.h"

#include <boost/asio/signal_set.hpp>

#include "abi/features.h"
#include "api/run_dir.h"
#include "api/server.h"
#include "base/log.h"
#include "config/parse.h"
#include "control/backing_watch.h"
#include "control/claims.h"
#include "control/control_ring.h"
#include "control/device_table.h"
#include "control/known_kernels.h"
#include "control/timeout_watch.h"
#include "daemon/fairness_watch.h"
#include "daemon/service.h"
#include "daemon/target_types.h"
#include "ring/ring.h"

namespace ublkd {

namespace {

// One run of the daemon. Members are destroyed last to first: devices before what they stand on.
class Daemon {
 public:
  Daemon(asio::io_context& io, const DaemonOptions& options) : io_(io), options_(options), signals_(io) {}

  Task<void> main() {
    watch_signals();
    auto prepared = co_await prepare();
    if (!prepared) {
      log_error("{}", prepared.error().text());
      exit_status_ = 1;
    } else {
      co_await serve();
    }
    signals_.cancel();
  }

  [[nodiscard]] int exit_status() const { return exit_status_; }
  // A device did not come to its end: what it stands on must not be taken away from under it.
  [[nodiscard]] bool left_behind() const { return left_behind_; }

 private:
  void watch_signals() {
    for (const int s : {SIGTERM, SIGINT, SIGHUP}) signals_.add(s);
    await_signal();
  }

  void await_signal() {
    signals_.async_wait([this](const boost::system::error_code& ec, int signal) {
      if (ec) return;
      if (signal == SIGHUP) {
        log_notice("SIGHUP ignored: this version does not reload its config");
      } else {
        log_notice("signal {}: removing devices and ending", signal);
        stop_.notify();
        started_or_stop_.notify();
        if (table_ != nullptr) table_->close();
      }
      await_signal();
    });
  }

  // All that can fail before any device exists.
  Task<Result<void>> prepare() {
    if (!options_.config_path.empty()) {
      auto config = load_config(options_.config_path, target_types());
      if (!config) co_return Unexpected(config.error());
      config_ = std::move(*config);
    }
    auto dir = api::RunDir::create(options_.run_dir);
    if (!dir) co_return Unexpected(dir.error());
    auto lock = api::InstanceLock::take(*dir);
    if (!lock) co_return Unexpected(lock.error());
    lock_ = std::make_unique<api::InstanceLock>(std::move(*lock));
    if (auto sound = check_kernel(); !sound) co_return sound;
    auto ring = ControlRing::open(io_, options_.control_node);
    if (!ring) co_return Unexpected(ring.error());
    ring_ = std::move(*ring);
    auto features = co_await ring_->features();
    if (!features) co_return Unexpected(explain_features(features.error()));
    if (auto ours = check_features(*features); !ours) co_return Unexpected(ours.error());
    env_ = {.io = &io_, .ring = ring_.get(), .types = target_types(), .claims = &claims_,
            .features = *features & ~options_.features_without, .features_kernel = *features};
    const bool register_ublkc = ring_releases_single_files();
    log_info("ublk features {:#x}; /dev/ublkcN {}", *features,
             register_ublkc ? "as registered file" : "by descriptor: this kernel does not release single slots");
    table_ = std::make_unique<DeviceTable>(env_, register_ublkc);
    timeouts_ = std::make_unique<TimeoutWatch>(io_, *table_);
    fairness_ = std::make_unique<FairnessWatch>(io_, *table_);
    backings_ = std::make_unique<BackingWatch>(io_, *table_);
    table_->on_change([this] {
      timeouts_->devices_changed();
      fairness_->devices_changed();
      backings_->devices_changed();
    });
    service_ = std::make_unique<DaemonService>(*table_, *fairness_, env_, options_);
    server_ = std::make_unique<api::ApiServer>(io_, dir->socket_path(), *service_);
    co_return server_->listen();
  }

  // Named, not crashed: on some releases the first command never returns and takes the driver along.
  static Result<void> check_kernel() {
    utsname kernel{};
    ::uname(&kernel);
    const auto news = kernel_news(kernel.release);
    if (!news) return {};
    if (news->fault == KernelFault::confirmed)
      return fail(ErrorKind::unsupported, "serve on kernel", kernel.release,
                  std::string(news->what) + "; " + std::string(news->mend));
    log_warning("kernel {}: {}; {}", kernel.release, news->what, news->mend);
    return {};
  }

  // Other nodes may answer, too: /dev/null says yes to everything.
  [[nodiscard]] Result<void> check_features(std::uint64_t features) const {
    if ((features & abi::feature_bit(abi::Feature::cmd_ioctl_encode)) != 0) return {};
    return fail(ErrorKind::unsupported, "GET_FEATURES", options_.control_node,
                "no CMD_IOCTL_ENCODE: this is not the ublk driver's control node, or Linux is older than 6.4");
  }

  static Error explain_features(Error error) {
    if (error.kind == ErrorKind::invalid || error.kind == ErrorKind::unsupported)
      error.advice = "this kernel's ublk driver is too old: ioctl-encoded commands came with Linux 6.4";
    return error;
  }

  Task<void> serve() {
    // A signal does not wait for the start: the kernel may take long to answer, and removing cancels it.
    Event started(io_);
    std::size_t live = 0;
    asio::co_spawn(io_, start_configured(), [&](std::exception_ptr e, std::size_t devices) {
      UBLKD_CHECK(e == nullptr);
      live = devices;
      started.notify();
      started_or_stop_.notify();
    });
    co_await started_or_stop_.wait_until(Deadline::max());
    const bool none_works = !config_.devices.empty() && live == 0 && !stop_.happened();
    if (none_works) {
      log_error("no configured device could be started");
      exit_status_ = 1;
    } else if (!stop_.happened()) {
      log_notice("ready: {} of {} configured devices live", live, config_.devices.size());
      co_await stop_.wait_until(Deadline::max());
    }
    table_->close();
    auto removed = co_await table_->remove_all(StopMode::force);
    if (!removed) left_behind_ = true;
    co_await started.wait_until(Deadline::max());
    server_->close();
  }

  // Returns how many devices are live. One that fails is logged and stays listed as failed.
  Task<std::size_t> start_configured() {
    for (const TagSetConfig& set : config_.tag_sets) {
      if (stop_.happened()) co_return 0;
      auto added = co_await table_->add_tag_set(set, config_.devices);
      if (!added) log_error("tag set {}: {}", set.name, added.error().text());
    }
    std::size_t live = 0;
    for (const DeviceConfig& device : config_.devices) {
      if (stop_.happened()) co_return live;
      auto added = co_await table_->add(device, true);
      if (added)
        ++live;
      else if (!stop_.happened())
        log_error("device {}: {}", device.name, added.error().text());
    }
    co_return live;
  }

  asio::io_context& io_;
  const DaemonOptions& options_;
  asio::signal_set signals_;
  Event stop_{io_};
  Event started_or_stop_{io_};
  int exit_status_ = 0;
  bool left_behind_ = false;
  Config config_;
  std::unique_ptr<api::InstanceLock> lock_;
  std::unique_ptr<ControlRing> ring_;
  Claims claims_;
  ControlEnvironment env_;
  std::unique_ptr<DeviceTable> table_;
  std::unique_ptr<TimeoutWatch> timeouts_;
  std::unique_ptr<FairnessWatch> fairness_;
  std::unique_ptr<BackingWatch> backings_;
  std::unique_ptr<DaemonService> service_;
  std::unique_ptr<api::ApiServer> server_;
};

}  // namespace

int run_daemon(const DaemonOptions& options) {
  std::signal(SIGPIPE, SIG_IGN);
  asio::io_context io(1);
  Daemon daemon(io, options);
  asio::co_spawn(io, daemon.main(), [&io](std::exception_ptr e) {
    UBLKD_CHECK(e == nullptr);
    io.stop();
  });
  io.run();
  if (daemon.left_behind()) {
    log_error("ending with devices left behind; the kernel ends them with this process");
    std::_Exit(1);
  }
  return daemon.exit_status();
}

}  // namespace ublkd
