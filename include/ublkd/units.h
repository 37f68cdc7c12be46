// Units whose mix-up would cost data, and the few constants every room shares.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace ublkd {

// Our number for one unit of backend depth, within one tag pool: 0 .. depth - 1.
enum class Tag : std::uint16_t {};
inline constexpr Tag tag_none{0xffff};

// The kernel's ublk tag of a request on one ublk queue: 0 .. slots - 1.
enum class Slot : std::uint16_t {};

constexpr std::uint16_t raw(Tag t) { return static_cast<std::uint16_t>(t); }
constexpr std::uint16_t raw(Slot s) { return static_cast<std::uint16_t>(s); }

inline constexpr std::uint32_t sector_bytes = 512;  // block layer's fixed unit
inline constexpr std::uint32_t sector_shift = 9;
inline constexpr std::uint32_t page_bytes = 4096;

inline constexpr std::uint32_t depth_max = 4096;      // tags of one pool; slots of one ublk queue
inline constexpr std::uint32_t hw_queues_max = 64;    // hardware queues of one tag set
inline constexpr std::uint64_t device_bytes_max = (std::uint64_t{1} << 63) - sector_bytes;
inline constexpr std::uint64_t time_never_ns = ~std::uint64_t{0};

}  // namespace ublkd
