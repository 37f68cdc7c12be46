#include "config/option_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "config/config.h"
#include "config/quantity.h"
#include "config/text.h"
#include "mq/share_params.h"
#include "ublkd/units.h"

namespace ublkd {

namespace {

using namespace std::string_view_literals;

constexpr std::uint64_t kib = 1024;
constexpr std::uint64_t io_bytes_limit = 32 * kib * kib;  // UBLK_IO_BUF_BITS of the kernel: 2^25
constexpr std::uint64_t device_id_max = (1U << 20) - 1;   // minors of a block major
constexpr std::uint64_t cpu_max = 1023;                   // CPU_SETSIZE - 1
constexpr std::uint64_t slots_total_limit = 32768;        // half the largest completion queue

constexpr std::uint64_t grace_ns_min = 100'000;
constexpr std::uint64_t grace_ns_max = 10'000'000'000;
constexpr std::uint64_t idle_after_ns_max = 3'600'000'000'000;
constexpr std::uint64_t timeout_ns_max = 86'400'000'000'000;
constexpr std::string_view schedulers[] = {"none", "mq-deadline", "bfq", "kyber", "kernel"};
constexpr std::string_view block_sizes[] = {"512", "1024", "2048", "4096"};
constexpr std::string_view top_keys[] = {"$schema", "tag_sets", "devices"};

constexpr OptionSpec tag_set_table[] = {
    {.name = "hw_queues",
     .type = OptionType::integer,
     .help = "Hardware queues: one thread, one ring and one tag pool each.",
     .default_text = "1",
     .min = 1,
     .max = hw_queues_max},
    {.name = "depth",
     .type = OptionType::integer,
     .help = "Tags per hardware queue: requests the backends of all devices of the set have at once. Without it what "
             "the drives of its devices take, else 128.",
     .min = 1,
     .max = depth_max},
    {.name = "scope",
     .type = OptionType::choice,
     .help = "Whose the tags are. queue: each hardware queue has depth tags of its own; set: all share depth tags.",
     .default_text = "queue",
     .choices = tag_scope_names},
    {.name = "policy",
     .type = OptionType::choice,
     .help = "How devices share the tags. adaptive: by weight, and what one leaves the others use; equal: a fixed part "
             "each, as the kernel does; none: first come, first served.",
     .default_text = "adaptive",
     .choices = share_policy_names},
    {.name = "grace",
     .type = OptionType::duration,
     .help = "Policy adaptive: how long a device's share is kept for it after its last use.",
     .default_text = "5ms",
     .min = grace_ns_min,
     .max = grace_ns_max},
    {.name = "idle_after",
     .type = OptionType::duration,
     .help = "Policy equal: how long after its last use a device still counts as active.",
     .default_text = "5s",
     .min = grace_ns_min,
     .max = idle_after_ns_max},
    {.name = "cpus",
     .type = OptionType::integers,
     .help = "CPUs the queue threads may run on; without it all CPUs.",
     .max = cpu_max},
    {.name = "devices_max",
     .type = OptionType::integer,
     .help = "Most devices at once; the rings are sized for it.",
     .default_text = "64",
     .min = 1,
     .max = 1024},
    {.name = "slots_total_max",
     .type = OptionType::integer,
     .help = "Most slots of all devices together, per hardware queue; the rings are sized for it.",
     .default_text = "8192",
     .min = 1,
     .max = slots_total_limit},
    {.name = "ring_entries",
     .type = OptionType::choice,
     .help = "Size of the rings' entries. NVMe passthrough needs big ones; auto: big when a device of the config does.",
     .default_text = "auto",
     .choices = ring_entries_names},
};

constexpr OptionSpec device_table[] = {
    {.name = "name",
     .type = OptionType::text,
     .help = "Name for commands and status; without it ublkbN, N being the id."},
    {.name = "id",
     .type = OptionType::integer,
     .help = "Number of the device, N in /dev/ublkbN; without it the kernel chooses.",
     .max = device_id_max},
    {.name = "target",
     .type = OptionType::target,
     .help = "Backend that serves the device.",
     .required = true},
    {.name = "tag_set",
     .type = OptionType::text,
     .help = "Tag set the device shares with others; without it the device has one of its own."},
    {.name = "queues",
     .type = OptionType::integer,
     .help = "Hardware queues of the device's own tag set, 1 when left out; not together with tag_set.",
     .min = 1,
     .max = hw_queues_max},
    {.name = "depth",
     .type = OptionType::integer,
     .help = "Slots per queue: requests the kernel hands over at once; also the tags of an own tag set.",
     .default_text = "128",
     .min = 1,
     .max = depth_max},
    {.name = "weight",
     .type = OptionType::integer,
     .help = "Share of the tag set's tags, relative to the other devices.",
     .default_text = "1",
     .min = 1,
     .max = weight_max},
    {.name = "timeout",
     .type = OptionType::duration,
     .help = "A request that takes longer is counted, and its target asked to end it; 0: never.",
     .default_text = "0",
     .max = timeout_ns_max},
    {.name = "logical_block_size",
     .type = OptionType::size,
     .help = "Smallest unit of I/O; without it the target's own.",
     .min = sector_bytes,
     .max = 4096,
     .choices = block_sizes},
    {.name = "max_io_size",
     .type = OptionType::size,
     .help = "Largest single request; without it the target's own, at most 512KiB in copy mode.",
     .min = 4096,
     .max = io_bytes_limit,
     .multiple_of = 4096},
    {.name = "buffer_mode",
     .type = OptionType::choice,
     .help = "How data moves. zero_copy: the application's own pages go to the backend; copy: through the daemon's "
             "memory; auto: zero_copy where kernel and target can.",
     .default_text = "auto",
     .choices = buffer_mode_names},
    {.name = "read_only", .type = OptionType::boolean, .help = "Refuse writes.", .default_text = "false"},
    {.name = "scheduler",
     .type = OptionType::choice,
     .help = "I/O scheduler of the block device; kernel: leave the kernel's choice.",
     .default_text = "none",
     .choices = schedulers},
};

// " from 1 to 4096, a multiple of 512"; empty when everything is allowed.
std::string limits_words(const OptionSpec& spec) {
  if (!spec.choices.empty()) return " out of " + joined(spec.choices);
  std::string out;
  if (spec.max != std::numeric_limits<std::uint64_t>::max())
    out = fmt::format(" from {} to {}", spec.min, spec.max);
  else if (spec.min != 0)
    out = fmt::format(" of at least {}", spec.min);
  if (spec.multiple_of > 1) out += fmt::format(", a multiple of {}", spec.multiple_of);
  return out;
}

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

std::span<const OptionSpec> tag_set_options() {
  return tag_set_table;
}
std::span<const OptionSpec> device_options() {
  return device_table;
}
std::span<const std::string_view> top_level_keys() {
  return top_keys;
}

bool is_valid_name(std::string_view name) {
  if (name.empty() || name.size() > name_bytes_max || !is_name_char(name[0])) return false;
  const auto ok = [](char c) { return is_name_char(c) || c == '.' || c == '_' || c == '-'; };
  if (!std::ranges::all_of(name, ok) || is_digits(name)) return false;
  return !(name.starts_with("ublkb") && is_digits(name.substr(5)));
}

std::string expected_words(const OptionSpec& spec) {
  switch (spec.type) {
    case OptionType::boolean: return "true or false";
    case OptionType::integer: return "a whole number" + limits_words(spec);
    case OptionType::size: return "a size in bytes" + limits_words(spec) + ", as a number or like \"64MiB\"";
    case OptionType::duration:
      return "a duration in nanoseconds" + limits_words(spec) + ", as a number or like \"10us\"";
    case OptionType::text: return fmt::format("a text of 1 to {} bytes", text_bytes_max);
    case OptionType::path: return fmt::format("an absolute path of at most {} bytes", text_bytes_max);
    case OptionType::choice: return "one of " + joined(spec.choices);
    case OptionType::choices: return "a list of different words out of " + joined(spec.choices);
    case OptionType::integers: return "a list of different whole numbers" + limits_words(spec);
    case OptionType::target: return "a target object like {\"type\": \"null\", \"size\": \"1GiB\"}";
  }
  return "?";
}

bool is_allowed(const OptionSpec& spec, std::uint64_t value) {
  if (value < spec.min || value > spec.max || value % spec.multiple_of != 0) return false;
  if (spec.choices.empty()) return true;
  return std::ranges::any_of(spec.choices,
                             [&](std::string_view c) { return parse_whole(c).value_or(0) == value; });
}

}  // namespace ublkd
