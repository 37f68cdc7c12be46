// Config: what the user asked for, validated, as plain structs. Made from JSON text by parse.h.
//
// Thread rule: plain values, control thread.
// Invariants:
//   1. Every number is inside the range its option table states.
//   2. Device names are distinct, fixed ids too; every tag_set named by a device exists.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mq/share_params.h"
#include "ublkd/options.h"
#include "ublkd/units.h"

namespace ublkd {

enum class BufferMode : std::uint8_t { automatic, copy };

struct TagSetConfig {
  std::string name;  // a private set has the name of its device
  std::uint32_t hw_queues = 1;
  std::uint32_t depth = 128;  // tags per hardware queue, or of the whole set: scope
  TagScope scope = TagScope::queue;
  ShareParams share;
  std::vector<std::uint32_t> cpus;      // CPUs the queue threads may run on; empty: all
  std::uint32_t devices_max = 64;       // the ring of a hardware queue is sized for these
  std::uint32_t slots_total_max = 8192;  // slots of all devices together, per hardware queue
  bool is_private = false;
};

struct DeviceConfig {
  std::string name;                 // "ublkbN" is used when empty and the id is known
  std::optional<std::uint32_t> id;  // empty: the kernel chooses
  TargetSpec target;
  std::string tag_set;          // empty: private, made of queues and depth
  std::uint32_t queues = 0;     // of a private set; 0: 1
  std::uint32_t depth = 0;      // slots per queue; 0: 128
  std::uint32_t weight = 1;
  std::uint64_t timeout_ns = 0;  // of a request; 0: none
  std::uint32_t logical_block_bytes = 0;  // 0: the target's
  std::uint64_t io_bytes_max = 0;         // 0: the target's, at most 512 KiB
  BufferMode buffer_mode = BufferMode::automatic;
  bool read_only = false;
  std::string scheduler = "none";  // I/O scheduler of the block device; "kernel" leaves the kernel's
};

struct Config {
  std::string origin;  // file it came from, for messages
  std::vector<TagSetConfig> tag_sets;
  std::vector<DeviceConfig> devices;
};

}  // namespace ublkd
