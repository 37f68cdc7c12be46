#include "abi/features.h"

#include <array>

namespace ublkd::abi {

namespace {

constexpr std::array<FeatureInfo, features_known> table{{
    {Feature::support_zero_copy, "SUPPORT_ZERO_COPY", "6.15",
     "request pages can be registered as ring buffers"},
    {Feature::uring_cmd_comp_in_task, "URING_CMD_COMP_IN_TASK", "6.0",
     "commands complete in the server's task"},
    {Feature::need_get_data, "NEED_GET_DATA", "6.0",
     "server names the buffer of a write after it sees the write"},
    {Feature::user_recovery, "USER_RECOVERY", "6.1", "device outlives its server; new I/O waits"},
    {Feature::user_recovery_reissue, "USER_RECOVERY_REISSUE", "6.1",
     "started I/O is sent again to the next server"},
    {Feature::unprivileged_dev, "UNPRIVILEGED_DEV", "6.3", "devices without root"},
    {Feature::cmd_ioctl_encode, "CMD_IOCTL_ENCODE", "6.4", "ioctl-encoded commands"},
    {Feature::user_copy, "USER_COPY", "6.5", "server copies data with pread and pwrite"},
    {Feature::zoned, "ZONED", "6.6", "zoned devices"},
    {Feature::user_recovery_fail_io, "USER_RECOVERY_FAIL_IO", "6.13",
     "I/O fails at once while there is no server"},
    {Feature::update_size, "UPDATE_SIZE", "6.16", "size can change while running"},
    {Feature::auto_buf_reg, "AUTO_BUF_REG", "6.16", "request pages are registered without a command"},
    {Feature::quiesce, "QUIESCE", "6.16", "device can be paused for a new server"},
    {Feature::per_io_daemon, "PER_IO_DAEMON", "6.16", "each slot may have its own thread"},
    {Feature::buf_reg_off_daemon, "BUF_REG_OFF_DAEMON", "6.17", "any thread may register request pages"},
    {Feature::batch_io, "BATCH_IO", "7.0", "requests are fetched and committed in batches"},
    {Feature::integrity, "INTEGRITY", "7.0", "requests carry integrity metadata"},
    {Feature::safe_stop_dev, "SAFE_STOP_DEV", "7.0", "stop that refuses while the device is open"},
    {Feature::no_auto_part_scan, "NO_AUTO_PART_SCAN", "7.0", "partition scan can be left out"},
    {Feature::shmem_zc, "SHMEM_ZC", "7.1", "zero copy for registered shared memory"},
    {Feature::io_desc_size, "IO_DESC_SIZE", "7.3", "request descriptors of another size"},
}};

constexpr bool in_bit_order() {
  for (unsigned i = 0; i < features_known; ++i)
    if (static_cast<unsigned>(table[i].feature) != i) return false;
  return true;
}
static_assert(in_bit_order());

}  // namespace

std::span<const FeatureInfo> feature_table() {
  return table;
}

std::vector<std::string> feature_names(std::uint64_t mask) {
  std::vector<std::string> names;
  for (unsigned bit = 0; bit < 64; ++bit) {
    if (((mask >> bit) & 1) == 0) continue;
    names.push_back(bit < features_known ? std::string(table[bit].name) : "BIT_" + std::to_string(bit));
  }
  return names;
}

}  // namespace ublkd::abi
