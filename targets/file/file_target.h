// file: a device on a regular file or on a block device, through the queue's io_uring only.
//
// Content rules: a discarded range of a regular file reads as zeroes; on a block device it is what
// that device makes of it. A range of the backing is served by one writable device at a time, found
// by identity and not by name; two devices may share a regular file read-only or on disjoint ranges,
// a block device read-only.
#pragma once

#include "ublkd/target.h"

namespace ublkd {

[[nodiscard]] const TargetType& file_target_type();

}  // namespace ublkd
