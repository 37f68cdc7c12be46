#include "targets/nvme/nvme_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>

#include "base/log.h"
#include "targets/nvme/drive.h"
#include "targets/nvme/nvme_queue.h"

namespace ublkd {

namespace {

// What several queues met, by status.
struct Met {
  std::uint64_t count = 0;
  NvmeOpcode opcode = NvmeOpcode::flush;
  std::uint64_t lba = 0;
  std::int32_t result = 0;
};

class NvmeTarget final : public Target {
 public:
  NvmeTarget(NvmeDrive drive, const NvmeOptions& options, std::string device_name)
      : drive_(std::move(drive)), device_name_(std::move(device_name)) {
    const NvmeLimits& l = drive_.limits;
    const std::uint32_t block = drive_.format.block_bytes;
    service_.nsid = drive_.nsid;
    service_.begin_lba = drive_.begin_bytes / block;
    service_.lba_shift = static_cast<std::uint32_t>(std::countr_zero(block));
    service_.transfer_bytes_max = drive_.geometry.io_bytes_max;
    service_.segments_max = l.segments_max;
    service_.discard_blocks_max = discard_blocks_max(drive_);
    service_.zero_blocks_max = zero_blocks_max(drive_);
    service_.zeroes = drive_.format.zeroes_deallocate ? NvmeDeallocate::may : NvmeDeallocate::no;
    service_.single_path = !drive_.node.multipath;
    service_.retries_max = options.retries_max;
    service_.retry_time_ns = options.retry_time_ns;
    service_.retry_delay_ms = drive_.abilities.retry_delay_ms;
  }

  [[nodiscard]] Geometry geometry() const override { return drive_.geometry; }
  [[nodiscard]] std::vector<int> backing_fds() const override { return {drive_.fd.get()}; }
  [[nodiscard]] Result<std::unique_ptr<TargetQueue>> open_queue(QueuePort& port) override {
    events_.push_back(std::make_unique<NvmeEvents>());
    return std::make_unique<NvmeQueue>(port, service_, *events_.back());
  }
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> facts() const override;
  [[nodiscard]] std::uint64_t attend() override;

 private:
  [[nodiscard]] std::map<std::int32_t, Met> met() const;
  void tell_what_queues_met();
  void tell_gone();
  void tell_reformatted();
  [[nodiscard]] std::uint64_t follow_size();

  NvmeDrive drive_;
  std::string device_name_;
  NvmeService service_;
  std::vector<std::unique_ptr<NvmeEvents>> events_;  // one for each queue
  std::map<std::int32_t, std::uint64_t> told_;       // of each status
  bool range_lost_told_ = false;
};

std::map<std::int32_t, Met> NvmeTarget::met() const {
  std::map<std::int32_t, Met> all;
  for (const auto& events : events_)
    events->for_each([&](const NvmeEvents::Row& row) {
      Met& m = all[row.kind.load(std::memory_order_relaxed)];
      if (m.count == 0) m = {0, row.opcode, row.lba, row.result.load(std::memory_order_relaxed)};
      m.count += row.count.get();
    });
  return all;
}

std::vector<std::pair<std::string, std::string>> NvmeTarget::facts() const {
  const NvmeLimits& l = drive_.limits;
  std::vector<std::pair<std::string, std::string>> facts{
      {"node", drive_.node.path},
      {"block", drive_.node.block_name},
      {"nsid", std::to_string(drive_.nsid)},
      {"transport", nvme_attribute(drive_.node, "transport")},
      {"model", nvme_attribute(drive_.node, "model")},
      {"begin", std::to_string(drive_.begin_bytes)},
      {"command_max", std::to_string(drive_.geometry.io_bytes_max)},
      {"segments_max", std::to_string(l.segments_max)},
      {"atomic_write", std::to_string(l.atomic_write_bytes)},
      {"drive_queues", fmt::format("{} x {}", l.queues, l.tags)},
      {"completions", drive_.geometry.polled ? "polled" : "interrupt"}};
  std::uint64_t retried = 0, waited = 0, others = 0;
  for (const auto& events : events_) {
    retried += events->retried.get();
    waited += events->waited.get();
    others += events->others.get();
  }
  facts.emplace_back("retried", std::to_string(retried));
  facts.emplace_back("waited_for_drive", std::to_string(waited));
  std::string statuses;
  for (const auto& [kind, m] : met())
    statuses += fmt::format("{}{} x{}", statuses.empty() ? "" : "; ", NvmeStatus(kind).text(), m.count);
  if (others != 0) statuses += fmt::format("; others x{}", others);
  if (!statuses.empty()) facts.emplace_back("statuses", statuses);
  if (service_.gone.load(std::memory_order_relaxed)) facts.emplace_back("namespace", "gone");
  return facts;
}

// One line for each status and call.
void NvmeTarget::tell_what_queues_met() {
  for (const auto& [kind, m] : met()) {
    std::uint64_t& told = told_[kind];
    if (m.count == told) continue;
    log_warning("device {}: {}: {}; {} more, {} in all, the first: {} of LBA {}", device_name_, drive_.node.path,
                NvmeStatus(kind).text(), m.count - told, m.count, nvme_opcode_name(m.opcode), m.lba);
    told = m.count;
  }
}

void NvmeTarget::tell_gone() {
  if (service_.gone.exchange(true, std::memory_order_relaxed)) return;
  log_error("device {}: {} is gone; its requests fail from now on. Delete the device; it is a new one when it is back",
            device_name_, drive_.node.path);
}

// The count of blocks in a command would no longer fit its data: the drive would move bytes beyond it.
void NvmeTarget::tell_reformatted() {
  if (service_.gone.exchange(true, std::memory_order_relaxed)) return;
  log_error("device {}: {} has another format now, no blocks of {} bytes; its requests fail from now on. Delete the "
            "device, and add it again",
            device_name_, drive_.node.path, drive_.format.block_bytes);
}

std::uint64_t NvmeTarget::follow_size() {
  const std::uint64_t size = nvme_size_bytes(drive_.node);
  if (size == 0) return drive_.geometry.size_bytes;  // being looked at anew
  const std::uint64_t end = drive_.begin_bytes + drive_.geometry.size_bytes;
  if (drive_.whole) {
    if (size > drive_.begin_bytes) drive_.geometry.size_bytes = size - drive_.begin_bytes;
  } else if (size < end && !range_lost_told_) {
    log_warning("device {}: {} has {} bytes now, and its range ends at {}", device_name_, drive_.node.path, size, end);
    range_lost_told_ = true;
  } else if (size >= end) {
    range_lost_told_ = false;
  }
  return drive_.geometry.size_bytes;
}

std::uint64_t NvmeTarget::attend() {
  tell_what_queues_met();
  if (!nvme_node_is_there(drive_.node)) {
    tell_gone();
    return drive_.geometry.size_bytes;
  }
  if (!nvme_format_is(drive_.node, drive_.format.block_bytes)) tell_reformatted();
  return service_.gone.load(std::memory_order_relaxed) ? drive_.geometry.size_bytes : follow_size();
}

Result<std::unique_ptr<Target>> open_nvme(const OptionValues& values, const OpenContext& context) {
  const NvmeOptions options = nvme_options(values);
  auto drive = open_nvme_drive(options, context);
  if (!drive) return Unexpected(drive.error());
  return std::make_unique<NvmeTarget>(std::move(*drive), options, context.device_name);
}

std::uint32_t depth_of(const OptionValues& values) {
  const auto node = find_nvme_node(nvme_options(values).path);
  return node ? std::min(nvme_limits(*node).tags, depth_max) : 0;
}

}  // namespace

const TargetType& nvme_target_type() {
  static const TargetType type{"nvme", "A device on an NVMe namespace, by passthrough commands.", nvme_option_specs(),
                               open_nvme, true, depth_of};
  return type;
}

}  // namespace ublkd
