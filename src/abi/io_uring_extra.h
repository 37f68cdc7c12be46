// Kernel words that the build machine's headers may lack (Debian 12 has those of Linux 6.1).
#pragma once

#include <linux/ioctl.h>

// include/uapi/linux/blkdev.h (since 6.12): IORING_OP_URING_CMD on a block device; sqe->addr is the
// first byte, sqe->addr3 the length in bytes, both on the logical block; all else 0. Result 0 or -errno.
#ifndef BLOCK_URING_CMD_DISCARD
#define BLOCK_URING_CMD_DISCARD _IO(0x12, 0)
#endif

// include/uapi/linux/io_uring.h, in sqe->rw_flags of IORING_OP_URING_CMD: buf_index names registered memory (since
// 6.1); a CQE for each event, until one has no IORING_CQE_F_MORE (since 6.18).
#ifndef IORING_URING_CMD_FIXED
#define IORING_URING_CMD_FIXED (1U << 0)
#endif
#ifndef IORING_URING_CMD_MULTISHOT
#define IORING_URING_CMD_MULTISHOT (1U << 1)
#endif

// include/uapi/linux/io_uring.h (since 6.6): the kernel takes SQEs in order and there is no index array.
// For liburing from 2.6 on to set: 2.3 would write an array at offset 0, over the ring's heads and tails.
#ifndef IORING_SETUP_NO_SQARRAY
#define IORING_SETUP_NO_SQARRAY (1U << 16)
#endif
