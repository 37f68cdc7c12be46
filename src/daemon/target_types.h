// The list of targets. A new one is a folder under targets/ and a line in target_types.cc.
#pragma once

#include <span>

#include "ublkd/target.h"

namespace ublkd {

[[nodiscard]] std::span<const TargetType* const> target_types();

}  // namespace ublkd
