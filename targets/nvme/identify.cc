#include "targets/nvme/identify.h"

#include <linux/nvme_ioctl.h>
#include <sys/ioctl.h>

#include <cstring>

namespace ublkd {

namespace {

constexpr std::uint8_t admin_identify = 0x06;
constexpr std::uint32_t cns_namespace = 0;
constexpr std::uint32_t cns_controller = 1;
constexpr std::uint32_t cns_command_set = 6;

constexpr std::uint16_t oncs_dataset_management = 1u << 2;
constexpr std::uint16_t oncs_write_zeroes = 1u << 3;
constexpr std::uint8_t dlfeat_reads_zeroes = 1;
constexpr std::uint8_t dlfeat_read_mask = 7;
constexpr std::uint8_t dlfeat_deallocate_in_zeroes = 1u << 3;
constexpr std::uint32_t retry_delay_unit_ms = 100;
constexpr std::uint32_t block_shift_max = 31;

template <typename T>
T at(const IdentifyPage& page, std::size_t offset) {
  T value;
  std::memcpy(&value, page.data() + offset, sizeof value);
  return value;
}

std::optional<IdentifyPage> identify(int fd, std::uint32_t cns, std::uint32_t nsid) {
  alignas(8) IdentifyPage page{};
  nvme_passthru_cmd cmd{};
  cmd.opcode = admin_identify;
  cmd.nsid = nsid;
  cmd.addr = reinterpret_cast<std::uint64_t>(page.data());
  cmd.data_len = static_cast<std::uint32_t>(page.size());
  cmd.cdw10 = cns;
  if (::ioctl(fd, NVME_IOCTL_ADMIN_CMD, &cmd) != 0) return std::nullopt;
  return page;
}

}  // namespace

NvmeFormat parse_namespace(const IdentifyPage& page) {
  constexpr std::size_t nsze = 0, flbas = 26, dps = 29, dlfeat = 33, lbaf = 128;
  const auto f = at<std::uint8_t>(page, flbas);
  const std::size_t format = lbaf + 4 * std::size_t{(f & 0xfu) | (f >> 5 & 0x3u) << 4};
  const auto feature = at<std::uint8_t>(page, dlfeat);
  const std::uint32_t shift = at<std::uint8_t>(page, format + 2);
  return {.blocks = at<std::uint64_t>(page, nsze),
          .block_bytes = shift > block_shift_max ? 0 : 1u << shift,
          .metadata_bytes = at<std::uint16_t>(page, format),
          .metadata_interleaved = (f & 0x10) != 0,
          .protection_type = at<std::uint8_t>(page, dps) & 7u,
          .zeroes_deallocate = (feature & dlfeat_read_mask) == dlfeat_reads_zeroes &&
                               (feature & dlfeat_deallocate_in_zeroes) != 0};
}

NvmeAbilities parse_controller(const IdentifyPage& page) {
  constexpr std::size_t crdt1 = 128, oncs = 520;
  const auto commands = at<std::uint16_t>(page, oncs);
  NvmeAbilities a;
  a.write_zeroes = (commands & oncs_write_zeroes) != 0;
  a.dataset_management = (commands & oncs_dataset_management) != 0;
  for (std::size_t i = 0; i < a.retry_delay_ms.size(); ++i)
    a.retry_delay_ms[i] = at<std::uint16_t>(page, crdt1 + 2 * i) * retry_delay_unit_ms;
  return a;
}

NvmeDiscardLimits parse_command_set(const IdentifyPage& page) {
  constexpr std::size_t dmrsl = 4, dmsl = 8;
  return {.range_blocks_max = at<std::uint32_t>(page, dmrsl), .command_blocks_max = at<std::uint64_t>(page, dmsl)};
}

std::optional<NvmeFormat> identify_namespace(int fd, std::uint32_t nsid) {
  const auto page = identify(fd, cns_namespace, nsid);
  return page ? std::optional(parse_namespace(*page)) : std::nullopt;
}

std::optional<NvmeAbilities> identify_controller(int fd) {
  const auto page = identify(fd, cns_controller, 0);
  return page ? std::optional(parse_controller(*page)) : std::nullopt;
}

std::optional<NvmeDiscardLimits> identify_command_set(int fd) {
  const auto page = identify(fd, cns_command_set, 0);
  return page ? std::optional(parse_command_set(*page)) : std::nullopt;
}

}  // namespace ublkd
