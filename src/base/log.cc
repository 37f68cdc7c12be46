#include "base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <memory>

namespace ublkd {

namespace {

// %J: the priority that systemd-journald reads off the start of a line (sd-daemon(3)).
class JournalPriority : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& msg, const std::tm&, spdlog::memory_buf_t& dest) override {
    const char* p = "<6>";
    switch (msg.level) {
      case spdlog::level::debug: p = "<7>"; break;
      case spdlog::level::warn: p = "<4>"; break;
      case spdlog::level::err: p = "<3>"; break;
      case spdlog::level::trace: p = "<5>"; break;  // our notice: spdlog has no such level
      default: break;
    }
    dest.append(p, p + 3);
  }
  [[nodiscard]] std::unique_ptr<spdlog::custom_flag_formatter> clone() const override {
    return std::make_unique<JournalPriority>();
  }
};

LogLevel level_min = LogLevel::info;

spdlog::level::level_enum spd_level(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::notice: return spdlog::level::trace;
    case LogLevel::warning: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::shared_ptr<spdlog::logger> make_logger() {
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<JournalPriority>('J');
  formatter->set_pattern(::isatty(STDERR_FILENO) ? "%H:%M:%S.%e %v" : "%J%v");
  sink->set_formatter(std::move(formatter));
  auto logger = std::make_shared<spdlog::logger>("ublkd", std::move(sink));
  logger->set_level(spdlog::level::trace);
  logger->flush_on(spdlog::level::trace);
  return logger;
}

// The one process-wide object here: stderr is one, too.
spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> one = make_logger();
  return *one;
}

}  // namespace

void log_init(LogLevel level) {
  level_min = level;
  logger();
}

bool log_wanted(LogLevel level) { return level >= level_min; }

void log_line(LogLevel level, std::string_view text) { logger().log(spd_level(level), text); }

}  // namespace ublkd
