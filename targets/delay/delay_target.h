// delay: holds each request for a chosen time before the target it owns gets it.
//
// The time starts when the request reaches this target; what the inner target needs comes on top.
#pragma once

#include "ublkd/target.h"

namespace ublkd {

[[nodiscard]] const TargetType& delay_target_type();

}  // namespace ublkd
