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
#include <string_view>
#include <vector>

#include "mq/share_params.h"
#include "ublkd/options.h"
#include "ublkd/units.h"

namespace ublkd {

// How the data of requests moves. copy: the kernel copies it between the application's pages and ours; zero_copy: the
// application's pages are registered with the ring, and the target hands them on.
enum class BufferMode : std::uint8_t { automatic, copy, zero_copy };

// Of the rings of a tag set. automatic: big where a device needs them (TargetType::big_entries).
enum class RingEntries : std::uint8_t { automatic, small, big };

// Words of the config for them, in the order of the enums.
inline constexpr std::string_view buffer_mode_names[] = {"auto", "copy", "zero_copy"};
inline constexpr std::string_view ring_entries_names[] = {"auto", "small", "big"};
[[nodiscard]] constexpr std::string_view buffer_mode_name(BufferMode m) {
  return buffer_mode_names[static_cast<std::size_t>(m)];
}
[[nodiscard]] constexpr std::string_view ring_entries_name(RingEntries e) {
  return ring_entries_names[static_cast<std::size_t>(e)];
}

struct TagSetConfig {
  std::string name;  // a private set has the name of its device
  std::uint32_t hw_queues = 1;
  std::uint32_t depth = 0;  // tags per hardware queue, or of the whole set: scope. 0: see fit_to_devices
  TagScope scope = TagScope::queue;
  ShareParams share;
  std::vector<std::uint32_t> cpus;      // CPUs the queue threads may run on; empty: all
  std::uint32_t devices_max = 64;       // the ring of a hardware queue is sized for these
  std::uint32_t slots_total_max = 8192;  // slots of all devices together, per hardware queue
  RingEntries ring_entries = RingEntries::automatic;
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
