// Feature bits of the kernel's ublk driver (GET_FEATURES, and flags of ADD_DEV): names, meaning, and
// the first kernel release where each is useful.
//
// Thread rule: constants; any thread.
// Source: the kernel's ublk document and its release notes. Names are the kernel's without UBLK_F_.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ublkd::abi {

enum class Feature : std::uint8_t {
  support_zero_copy = 0,
  uring_cmd_comp_in_task = 1,
  need_get_data = 2,
  user_recovery = 3,
  user_recovery_reissue = 4,
  unprivileged_dev = 5,
  cmd_ioctl_encode = 6,
  user_copy = 7,
  zoned = 8,
  user_recovery_fail_io = 9,
  update_size = 10,
  auto_buf_reg = 11,
  quiesce = 12,
  per_io_daemon = 13,
  buf_reg_off_daemon = 14,
  batch_io = 15,
  integrity = 16,
  safe_stop_dev = 17,
  no_auto_part_scan = 18,
  shmem_zc = 19,
  io_desc_size = 20,
};

inline constexpr std::uint32_t features_known = 21;

constexpr std::uint64_t feature_bit(Feature f) {
  return std::uint64_t{1} << static_cast<unsigned>(f);
}

struct FeatureInfo {
  Feature feature = Feature::support_zero_copy;
  std::string_view name;     // "USER_COPY"
  std::string_view since;    // kernel release, "6.5"
  std::string_view meaning;  // short, for tables
};

// All known features, entry i describes bit i.
[[nodiscard]] std::span<const FeatureInfo> feature_table();

// Names of the bits set in mask; a bit without a name is "BIT_37".
[[nodiscard]] std::vector<std::string> feature_names(std::uint64_t mask);

}  // namespace ublkd::abi
