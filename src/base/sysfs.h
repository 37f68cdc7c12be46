// What the kernel says in sysfs: small files of one value. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ublkd {

// The file's text without its last line end and blanks around; empty when it cannot be read.
[[nodiscard]] std::optional<std::string> sysfs_text(const std::string& path);

// The number that the file begins with; empty when there is none.
[[nodiscard]] std::optional<std::uint64_t> sysfs_number(const std::string& path);

}  // namespace ublkd
