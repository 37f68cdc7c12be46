// fault: fails chosen requests and hands all others to the target it owns.
//
// A request matches when its op is listed and it touches the range. A flush has no place: it matches
// only while no range is given. Of the matching ones each every-th fails, at most count of them, per
// device queue, and never reaches the inner target.
#pragma once

#include "ublkd/target.h"

namespace ublkd {

[[nodiscard]] const TargetType& fault_target_type();

}  // namespace ublkd
