#include "targets/delay/delay_target.h"

#include <fmt/format.h>

#include "targets/delay/delay_queue.h"

namespace ublkd {

namespace {

constexpr std::uint64_t delay_ns_max = 3'600'000'000'000;  // 1 h: beyond any time-out worth testing

constexpr OptionSpec op_delay(std::string_view name, std::string_view help) {
  return {.name = name, .type = OptionType::duration, .help = help, .max = delay_ns_max};
}

constexpr std::array<OptionSpec, 7> delay_options{{
    {.name = "target",
     .type = OptionType::target,
     .help = "The target that serves the requests.",
     .required = true},
    {.name = "time",
     .type = OptionType::duration,
     .help = "How long each request is held, where its own operation has no other time.",
     .default_text = "0",
     .max = delay_ns_max},
    op_delay("read", "Time for reads; that of time when not given."),
    op_delay("write", "Time for writes; that of time when not given."),
    op_delay("flush", "Time for flushes; that of time when not given."),
    op_delay("discard", "Time for discards; that of time when not given."),
    op_delay("write_zeroes", "Time for write-zeroes; that of time when not given."),
}};

class DelayTarget final : public Target {
 public:
  DelayTarget(std::unique_ptr<Target> inner, const OpDelays& delays)
      : inner_(std::move(inner)), delays_(delays) {}

  [[nodiscard]] Geometry geometry() const override { return inner_->geometry(); }
  [[nodiscard]] std::vector<int> backing_fds() const override { return inner_->backing_fds(); }
  [[nodiscard]] std::uint64_t attend() override { return inner_->attend(); }
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> facts() const override {
    auto facts = inner_->facts();
    for (std::size_t i = 0; i < op_count; ++i)
      if (delays_[i] != 0)
        facts.emplace_back(fmt::format("delay.{}", op_name(static_cast<Op>(i))),
                           fmt::format("{} ns", delays_[i]));
    return facts;
  }
  [[nodiscard]] Result<std::unique_ptr<TargetQueue>> open_queue(QueuePort& port) override {
    auto inner = inner_->open_queue(port);
    if (!inner) return inner;
    return std::make_unique<DelayQueue>(port, std::move(*inner), delays_);
  }

 private:
  std::unique_ptr<Target> inner_;
  OpDelays delays_;
};

Result<std::unique_ptr<Target>> open_delay(const OptionValues& options, const OpenContext& context) {
  const auto spec = options.target("target");
  if (spec == nullptr)
    return fail(ErrorKind::invalid, "open delay target of", context.device_name, "target is missing");
  OpDelays delays{};
  for (std::size_t i = 0; i < op_count; ++i)
    delays[i] = options.number(op_name(static_cast<Op>(i)), options.number("time", 0));
  auto inner = open_target(*spec, context);
  if (!inner) return inner;
  return std::make_unique<DelayTarget>(std::move(*inner), delays);
}

}  // namespace

const TargetType& delay_target_type() {
  static constexpr TargetType type{"delay", "Holds the requests of another target for a time.", delay_options,
                                   open_delay};
  return type;
}

}  // namespace ublkd
