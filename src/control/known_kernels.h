// Kernel releases whose ublk driver is known to be broken, and how. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ublkd {

enum class KernelFault : std::uint8_t { suspected, confirmed };

struct KernelNews {
  KernelFault fault = KernelFault::confirmed;
  std::string_view what;
  std::string_view mend;
};

// What is known against the kernel of `uname -r`; nothing for most.
[[nodiscard]] std::optional<KernelNews> kernel_news(std::string_view release);

}  // namespace ublkd
