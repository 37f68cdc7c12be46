"""Whether a device gives the data it should, read into buffers that hold something else before.

A server that answers reads without filling the client's buffer is the fastest of all: no row is measured before this.
"""

import mmap
import os
import random
from concurrent.futures import ThreadPoolExecutor

from progress import Failure

BLOCK_BYTES = 4096
CHUNK_BYTES = 128 << 10
FILL = b"\xa5"
READERS = 16         # requests at once, so that many of the server's slots are seen
READS = 1024
IN_ORDER_BYTES = 64 << 20


def block(number):
    """The content of a block: eight bytes that name it, over and over."""
    return ((number * 0x9E3779B97F4A7C15 + 1) & (2**64 - 1)).to_bytes(8, "little") * (BLOCK_BYTES // 8)


def chunk(offset, length):
    return b"".join(block(number) for number in range(offset // BLOCK_BYTES, (offset + length) // BLOCK_BYTES))


def size_of(fd):
    return os.lseek(fd, 0, os.SEEK_END)


def write_all(device, length):
    """Writes the whole of a small device, chunk by chunk."""
    fd = os.open(device, os.O_RDWR | os.O_DIRECT)
    try:
        buffer = mmap.mmap(-1, CHUNK_BYTES)  # direct I/O wants memory on a page
        for offset in range(0, length, CHUNK_BYTES):
            buffer[:] = chunk(offset, CHUNK_BYTES)
            if os.pwritev(fd, [buffer], offset) != CHUNK_BYTES:
                raise Failure(f"{device}: short write at {offset}")
        os.fsync(fd)
    finally:
        os.close(fd)


def read_and_compare(device, fd, offset, length, expected):
    buffer = mmap.mmap(-1, length)
    buffer[:] = FILL * length
    if os.preadv(fd, [buffer], offset) != length:
        raise Failure(f"{device}: short read at {offset}")
    got = buffer[:]
    if got == expected:
        return
    at = next(i for i in range(length) if got[i] != expected[i])
    what = "was left unwritten" if got[at:at + 8] == FILL * 8 else f"has {got[at:at + 8].hex()}"
    raise Failure(f"{device}: wrong content at byte {offset + at}: the client's buffer {what}, "
                  f"expected {expected[at:at + 8].hex()}")


def check(device, zeroes, in_order_bytes=IN_ORDER_BYTES, reads=READS):
    """Writes (but a device of zeroes) and reads back: in large chunks in order, then single blocks many at once."""
    fd = os.open(device, os.O_RDONLY | os.O_DIRECT)
    try:
        length = size_of(fd)
        if not zeroes:
            write_all(device, length)
        chance = random.Random(1)
        jobs = [(chance.randrange(length // BLOCK_BYTES) * BLOCK_BYTES, BLOCK_BYTES) for _ in range(reads)]
        jobs = [(offset, CHUNK_BYTES) for offset in range(0, min(length, in_order_bytes), CHUNK_BYTES)] + jobs

        def one(job):
            read_and_compare(device, fd, *job, bytes(job[1]) if zeroes else chunk(*job))

        with ThreadPoolExecutor(READERS) as pool:
            for _ in pool.map(one, jobs):
                pass
    finally:
        os.close(fd)
