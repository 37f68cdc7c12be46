"""A client of a block device: direct I/O from buffers of a chosen alignment, and the ioctls of disks.

Every read first fills its buffer with a pattern, so that a server which leaves a client's buffer unwritten shows.
One Disk belongs to one thread.
"""

import ctypes
import fcntl
import mmap
import os
import struct

BLKROGET = 0x125E
BLKFLSBUF = 0x1261
BLKSSZGET = 0x1268
BLKDISCARD = 0x1277
BLKIOMIN = 0x1278
BLKIOOPT = 0x1279
BLKPBSZGET = 0x127B
BLKSECDISCARD = 0x127D
BLKZEROOUT = 0x127F
BLKGETSIZE64 = 0x80081272

FALLOC_FL_KEEP_SIZE = 1
FALLOC_FL_PUNCH_HOLE = 2
FALLOC_FL_ZERO_RANGE = 16

TRANSFER_BYTES_MAX = 2 << 20
UNWRITTEN = 0xA5  # what a read's buffer holds before

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def fallocate(fd, mode, offset, length):
    if LIBC.fallocate(fd, mode, offset, length) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


class Disk:
    """An open block device, or a file that takes direct I/O. A context manager."""

    def __init__(self, path, flags=os.O_RDWR | os.O_DIRECT):
        self.path = str(path)
        self.fd = os.open(self.path, flags | os.O_CLOEXEC)
        self.memory = mmap.mmap(-1, TRANSFER_BYTES_MAX + 8192)
        self.view = memoryview(self.memory)
        self.pattern = bytes([UNWRITTEN]) * TRANSFER_BYTES_MAX

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        os.close(self.fd)
        self.view.release()
        self.memory.close()

    def read(self, offset, length, align=4096):
        """What the device has there; shorter at its end. The buffer's address is a multiple of align, not of more."""
        begin = align % 4096
        self.view[begin:begin + length] = self.pattern[:length]
        got = os.preadv(self.fd, [self.view[begin:begin + length]], offset)
        return self.memory[begin:begin + got]

    def write(self, offset, data, align=4096):
        begin = align % 4096
        self.view[begin:begin + len(data)] = data
        done = os.pwritev(self.fd, [self.view[begin:begin + len(data)]], offset)
        if done != len(data):
            raise OSError(0, f"{self.path}: {done} of {len(data)} bytes written at {offset}")

    def flush(self):
        os.fsync(self.fd)

    def range_ioctl(self, request, offset, length):
        fcntl.ioctl(self.fd, request, struct.pack("=QQ", offset, length))

    def discard(self, offset, length):
        self.range_ioctl(BLKDISCARD, offset, length)

    def zero(self, offset, length):
        """Write-zeroes that keeps the space."""
        self.range_ioctl(BLKZEROOUT, offset, length)

    def unmap(self, offset, length):
        """Write-zeroes that may give the space back; never falls back to written zeroes in the kernel."""
        fallocate(self.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length)

    def number(self, request):
        return struct.unpack("=Q", fcntl.ioctl(self.fd, request, bytes(8)))[0]

    @property
    def size_bytes(self):
        return self.number(BLKGETSIZE64)

    @property
    def block_bytes(self):
        return self.number(BLKSSZGET)

    @property
    def read_only(self):
        return self.number(BLKROGET) != 0


def queue_attribute(path, name):
    """An attribute of /sys/block/DISK/queue, a number where it is one."""
    with open(f"/sys/block/{os.path.basename(path)}/queue/{name}", encoding="ascii") as text:
        word = text.read().strip()
    return int(word) if word.lstrip("-").isdigit() else word
