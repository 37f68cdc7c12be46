// NvmeEvents: what one queue of an NVMe device met: statuses, retries. Written by the queue, told by the target.
//
// Thread rule: record() and the counters' add() on the queue's thread; reading on any. The numbers of one row belong
//   together only once the kind is seen: it is written last.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "stats/counters.h"
#include "targets/nvme/command.h"
#include "targets/nvme/status.h"

namespace ublkd {

class NvmeEvents {
 public:
  static constexpr std::size_t rows_max = 16;  // distinct statuses; more are counted together

  struct Row {
    std::atomic<std::int32_t> kind{0};  // NvmeStatus::kind(); 0: free
    std::atomic<std::int32_t> result{0};
    NvmeOpcode opcode = NvmeOpcode::flush;  // of the first
    std::uint64_t lba = 0;
    Counter count;
  };

  void record(std::int32_t result, NvmeOpcode opcode, std::uint64_t lba) {
    const std::int32_t kind = NvmeStatus(result).kind();
    for (Row& row : rows_) {
      const std::int32_t known = row.kind.load(std::memory_order_relaxed);  // only this thread writes it
      if (known != 0 && known != kind) continue;
      if (known == 0) {
        row.result.store(result, std::memory_order_relaxed);
        row.opcode = opcode;
        row.lba = lba;
        // Release pairs with the acquire in rows(): opcode and lba are there when the kind is seen.
        row.kind.store(kind, std::memory_order_release);
      }
      row.count.add(1);
      return;
    }
    others.add(1);
  }

  // Calls f(row) for each status met.
  template <typename F>
  void for_each(F&& f) const {
    for (const Row& row : rows_)
      if (row.kind.load(std::memory_order_acquire) != 0) f(row);
  }

  Counter retried;  // commands sent again
  Counter waited;   // of these, after the way to the drive was interrupted
  Counter others;   // statuses beyond the rows

 private:
  std::array<Row, rows_max> rows_;
};

}  // namespace ublkd
