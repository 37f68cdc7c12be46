// nvme: a device on an NVMe namespace, or on a range of it, by passthrough commands on its generic node.
//
// Content rules: blocks are the drive's; a discarded range holds what the drive makes of it. One flush of a client is
// one flush command, which covers all that was completed before it, on any queue. Zero copy where the engine has it:
// the application's pages go to the drive.
#pragma once

#include "ublkd/target.h"

namespace ublkd {

[[nodiscard]] const TargetType& nvme_target_type();

}  // namespace ublkd
