#include "targets/fault/fault_target.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>

#include "targets/fault/fault_queue.h"

namespace ublkd {

namespace {

constexpr std::array<std::string_view, op_count> op_words{"read", "write", "flush", "discard",
                                                          "write_zeroes"};

// Errors the block layer hands to its user. EAGAIN, EBUSY and ENOMEM are missing: it retries those
// for ever (block/blk-core.c, blk_errors).
struct NamedErrno {
  std::string_view name;
  int value;
};
constexpr std::array<NamedErrno, 8> named_errnos{{{"EIO", EIO},
                                                  {"ENOSPC", ENOSPC},
                                                  {"EOPNOTSUPP", EOPNOTSUPP},
                                                  {"ETIMEDOUT", ETIMEDOUT},
                                                  {"ENODATA", ENODATA},
                                                  {"EILSEQ", EILSEQ},
                                                  {"ENOLINK", ENOLINK},
                                                  {"EREMOTEIO", EREMOTEIO}}};
constexpr auto errno_words = [] {
  std::array<std::string_view, named_errnos.size()> words;
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = named_errnos[i].name;
  return words;
}();

constexpr std::array<OptionSpec, 7> fault_options{{
    {.name = "target",
     .type = OptionType::target,
     .help = "The target that serves all requests that are not failed.",
     .required = true},
    {.name = "ops",
     .type = OptionType::choices,
     .help = "Operations that may fail; all when not given.",
     .choices = op_words},
    {.name = "errno",
     .type = OptionType::choice,
     .help = "Error that a failed request ends with.",
     .default_text = "EIO",
     .choices = errno_words},
    {.name = "every",
     .type = OptionType::integer,
     .help = "Each so many-th matching request fails; 1 fails all.",
     .default_text = "1",
     .min = 1},
    {.name = "offset",
     .type = OptionType::size,
     .help = "Start of the range whose requests may fail.",
     .max = device_bytes_max},
    {.name = "length",
     .type = OptionType::size,
     .help = "Length of that range; to the end of the device when not given.",
     .min = 1,
     .max = device_bytes_max},
    {.name = "count",
     .type = OptionType::integer,
     .help = "Requests that fail on each queue before faults stop; 0 for no end.",
     .default_text = "0"},
}};

class FaultTarget final : public Target {
 public:
  FaultTarget(std::unique_ptr<Target> inner, const FaultRule& rule, std::string summary)
      : inner_(std::move(inner)), rule_(rule), summary_(std::move(summary)) {}

  [[nodiscard]] Geometry geometry() const override { return inner_->geometry(); }
  [[nodiscard]] std::vector<int> backing_fds() const override { return inner_->backing_fds(); }
  [[nodiscard]] std::uint64_t attend() override { return inner_->attend(); }
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> facts() const override {
    auto facts = inner_->facts();
    facts.emplace_back("fault", summary_);
    return facts;
  }
  [[nodiscard]] Result<std::unique_ptr<TargetQueue>> open_queue(QueuePort& port) override {
    auto inner = inner_->open_queue(port);
    if (!inner) return inner;
    return std::make_unique<FaultQueue>(port, std::move(*inner), rule_);
  }

 private:
  std::unique_ptr<Target> inner_;
  FaultRule rule_;
  std::string summary_;
};

FaultRule make_rule(const OptionValues& options) {
  FaultRule rule;
  const auto words = options.words("ops");
  for (std::size_t i = 0; i < op_count; ++i) rule.ops[i] = words.empty();
  for (const std::string& word : words)
    for (std::size_t i = 0; i < op_count; ++i)
      if (word == op_words[i]) rule.ops[i] = true;
  const std::string name = options.text("errno", "EIO");
  for (const NamedErrno& e : named_errnos)
    if (name == e.name) rule.error = -e.value;
  rule.every = options.number("every", 1);
  rule.count_max = options.number("count", 0);
  rule.whole_device = !options.has("offset") && !options.has("length");
  rule.begin_bytes = options.number("offset", 0);
  rule.end_bytes = options.has("length") ? rule.begin_bytes + options.number("length") : device_bytes_max;
  return rule;
}

Result<std::unique_ptr<Target>> open_fault(const OptionValues& options, const OpenContext& context) {
  const auto spec = options.target("target");
  if (spec == nullptr)
    return fail(ErrorKind::invalid, "open fault target of", context.device_name, "target is missing");
  const FaultRule rule = make_rule(options);
  if (rule.every == 0)
    return fail(ErrorKind::invalid, "open fault target of", context.device_name, "every must be 1 or more");
  auto inner = open_target(*spec, context);
  if (!inner) return inner;
  if (rule.begin_bytes >= (*inner)->geometry().size_bytes)
    return fail(ErrorKind::invalid, "open fault target of", context.device_name,
                fmt::format("offset {} is not inside the device of {} bytes", rule.begin_bytes,
                            (*inner)->geometry().size_bytes));
  return std::make_unique<FaultTarget>(std::move(*inner), rule,
                                       fmt::format("{}, every {}", options.text("errno", "EIO"), rule.every));
}

}  // namespace

const TargetType& fault_target_type() {
  static constexpr TargetType type{"fault", "Fails chosen requests of another target.", fault_options,
                                   open_fault};
  return type;
}

}  // namespace ublkd
