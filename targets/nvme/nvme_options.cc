#include "targets/nvme/nvme_options.h"

#include <array>

#include "ublkd/units.h"

namespace ublkd {

namespace {

constexpr std::uint64_t retries_limit = 100;
constexpr std::uint64_t retry_time_ns_limit = 3'600'000'000'000;

constexpr std::array<OptionSpec, 7> specs{{
    {.name = "path",
     .type = OptionType::path,
     .help = "Namespace: /dev/ngXnY, or its block node /dev/nvmeXnY.",
     .required = true},
    {.name = "offset",
     .type = OptionType::size,
     .help = "Where the device starts in the namespace; a multiple of its logical block.",
     .default_text = "0",
     .max = device_bytes_max,
     .multiple_of = sector_bytes},
    {.name = "length",
     .type = OptionType::size,
     .help = "Size of the device; to the end of the namespace when not given, and then it follows its size.",
     .min = sector_bytes,
     .max = device_bytes_max,
     .multiple_of = sector_bytes},
    {.name = "retries",
     .type = OptionType::integer,
     .help = "How often a command is sent again that the drive failed without saying do not retry.",
     .default_text = "5",
     .max = retries_limit},
    {.name = "retry_time",
     .type = OptionType::duration,
     .help = "How long commands are sent again while the way to the drive is interrupted, as by a controller reset.",
     .default_text = "30s",
     .max = retry_time_ns_limit},
    {.name = "poll",
     .type = OptionType::boolean,
     .help = "Poll for completions where the driver has queues for it (nvme.poll_queues); rules zero copy out.",
     .default_text = "false"},
    {.name = "force",
     .type = OptionType::boolean,
     .help = "Serve the namespace even when it is mounted or otherwise in use.",
     .default_text = "false"},
}};

}  // namespace

std::span<const OptionSpec> nvme_option_specs() { return specs; }

NvmeOptions nvme_options(const OptionValues& values) {
  NvmeOptions o{.path = values.text("path"),
                .offset_bytes = values.number("offset"),
                .retries_max = static_cast<std::uint32_t>(values.number("retries", 5)),
                .retry_time_ns = values.number("retry_time", 30'000'000'000),
                .poll = values.flag("poll"),
                .force = values.flag("force")};
  if (values.has("length")) o.length_bytes = values.number("length");
  return o;
}

}  // namespace ublkd
