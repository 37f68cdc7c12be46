// The options of the nvme target, as a table and as a struct.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "ublkd/target.h"

namespace ublkd {

struct NvmeOptions {
  std::string path;
  std::uint64_t offset_bytes = 0;             // where the device starts in the namespace
  std::optional<std::uint64_t> length_bytes;  // to the namespace's end when empty
  std::uint32_t retries_max = 0;
  std::uint64_t retry_time_ns = 0;
  bool poll = false;
  bool force = false;
};

[[nodiscard]] std::span<const OptionSpec> nvme_option_specs();
[[nodiscard]] NvmeOptions nvme_options(const OptionValues& values);

}  // namespace ublkd
