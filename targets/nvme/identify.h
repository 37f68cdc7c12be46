// What a drive says of itself by Identify, where sysfs has no answer.
//
// Thread rule: control thread. Admin commands block until the drive has answered, or the driver has given it up.
// Source: NVM Express base specification 2.0, figure 275 (controller); NVM command set specification 1.0, figures 97
//   (namespace) and 100 (controller of the command set).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace ublkd {

using IdentifyPage = std::array<std::byte, 4096>;

// Format of a namespace and what may be done to it.
struct NvmeFormat {
  std::uint64_t blocks = 0;
  std::uint32_t block_bytes = 0;
  std::uint32_t metadata_bytes = 0;
  bool metadata_interleaved = false;
  std::uint32_t protection_type = 0;  // 0: none
  bool zeroes_deallocate = false;     // Write Zeroes may deallocate, and the blocks then read as zeroes
};
[[nodiscard]] NvmeFormat parse_namespace(const IdentifyPage& page);

struct NvmeAbilities {
  bool write_zeroes = false;
  bool dataset_management = false;
  std::array<std::uint32_t, 3> retry_delay_ms{};  // by NvmeStatus::retry_delay() - 1
};
[[nodiscard]] NvmeAbilities parse_controller(const IdentifyPage& page);

// Limits of discard; 0: none.
struct NvmeDiscardLimits {
  std::uint32_t range_blocks_max = 0;    // of one range
  std::uint64_t command_blocks_max = 0;  // of all ranges of a command
};
[[nodiscard]] NvmeDiscardLimits parse_command_set(const IdentifyPage& page);

// The drive's answers, by the generic node; empty when the right is missing or the drive does not know the page.
[[nodiscard]] std::optional<NvmeFormat> identify_namespace(int fd, std::uint32_t nsid);
[[nodiscard]] std::optional<NvmeAbilities> identify_controller(int fd);
[[nodiscard]] std::optional<NvmeDiscardLimits> identify_command_set(int fd);

}  // namespace ublkd
