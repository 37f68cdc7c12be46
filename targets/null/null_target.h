// null: a device of zeroes that does no I/O at all; measures and tests everything around a target.
//
// Reads give zeroes, writes are dropped, every other operation succeeds. All requests complete
// inside queue_rqs. With accept_max, one call takes at most so many and leaves the rest: a backend
// that is short of resources, without any hardware. With one_by_one, a list is handed on one request at a time: what it
// is worth to get requests as lists.
#pragma once

#include "ublkd/target.h"

namespace ublkd {

[[nodiscard]] const TargetType& null_target_type();

}  // namespace ublkd
