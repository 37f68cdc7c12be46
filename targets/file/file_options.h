// The options of the file target, as a table and as a struct.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "ublkd/target.h"

namespace ublkd {

enum class CreateMode : std::uint8_t { never, sparse, preallocate };
enum class IoMode : std::uint8_t { automatic, direct, buffered };

struct FileOptions {
  std::string path;
  CreateMode create = CreateMode::never;
  std::optional<std::uint64_t> size_bytes;    // of a file to create; an existing one must have it
  std::uint64_t offset_bytes = 0;             // where the device starts in the backing
  std::optional<std::uint64_t> length_bytes;  // to the backing's end when empty
  IoMode io = IoMode::automatic;
};

[[nodiscard]] std::span<const OptionSpec> file_option_specs();
[[nodiscard]] FileOptions file_options(const OptionValues& values);

}  // namespace ublkd
