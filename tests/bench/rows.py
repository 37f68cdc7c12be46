"""The rows of the benchmark, as data: who serves what, beside whom it is measured, and how far it may be behind.

A row is a server, the backing behind it, and the words that put the server into a mode. More rows (modes, targets) are
more data here; what a server is and how it is started is in servers.py.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """`ratio_max`: most instructions per I/O, as a multiple of the row `peer` in the same run."""
    name: str
    title: str
    server: str          # bare (the backing itself), passthrough (t/io_uring -u1), loop, kublk, ublkd
    backing: str         # zeroes (none at all), null_blk, tmpfs, nvme (nvme-loop over null_blk, blocks of 4096 bytes),
                         # drive (qemu's, over nothing)
    peer: str = ""
    ratio_max: float = 0
    second: tuple = ()   # (name, ratio_max): another row not to be behind
    block_bytes: int = 4096
    depth: int = 128
    words: tuple = ()    # kublk: more words of its command line
    settings: tuple = ()  # ublkd: more (key, value) of the device in its config
    options: tuple = ()   # ublkd: more (key, value) of its target


ROWS = (
    Row("null_blk", "null_blk", "bare", "null_blk"),
    Row("loop-null_blk", "kernel loop (direct) on null_blk", "loop", "null_blk"),
    Row("loop-tmpfs", "kernel loop (direct) on tmpfs", "loop", "tmpfs"),
    Row("kublk-null", "kublk null", "kublk", "zeroes"),
    Row("ublkd-null", "ublkd null", "ublkd", "zeroes", peer="kublk-null", ratio_max=1.02),
    Row("ublkd-null-one-by-one", "ublkd null, one by one", "ublkd", "zeroes", peer="ublkd-null",
        options=(("one_by_one", True),)),
    Row("kublk-null_blk", "kublk loop on null_blk", "kublk", "null_blk"),
    Row("ublkd-null_blk", "ublkd file on null_blk", "ublkd", "null_blk", peer="kublk-null_blk", ratio_max=0.97),
    Row("kublk-tmpfs", "kublk loop on tmpfs", "kublk", "tmpfs"),
    Row("ublkd-tmpfs", "ublkd file on tmpfs", "ublkd", "tmpfs", peer="kublk-tmpfs"),
    Row("nvme", "nvme-loop, block node", "bare", "nvme"),
    Row("nvme-generic", "nvme-loop, passthrough (t/io_uring -u1)", "passthrough", "nvme", peer="nvme"),
    Row("kublk-nvme", "kublk loop on it", "kublk", "nvme", peer="nvme", words=("--auto_zc",)),
    Row("kublk-nvme-batch", "kublk loop on it, batch", "kublk", "nvme", peer="nvme", words=("--auto_zc", "-b")),
    Row("ublkd-nvme", "ublkd nvme", "ublkd", "nvme", peer="nvme", ratio_max=1.70, second=("kublk-nvme", 0.80)),
    Row("ublkd-nvme-copy", "ublkd nvme, copy", "ublkd", "nvme", peer="nvme", settings=(("buffer_mode", "copy"),)),
    Row("nvme-128k", "128 KiB: nvme-loop, block node", "bare", "nvme", block_bytes=128 << 10, depth=64),
    Row("kublk-nvme-128k", "128 KiB: kublk loop on it", "kublk", "nvme", peer="nvme-128k", words=("--auto_zc",),
        block_bytes=128 << 10, depth=64),
    Row("ublkd-nvme-128k", "128 KiB: ublkd nvme", "ublkd", "nvme", peer="nvme-128k", block_bytes=128 << 10, depth=64),
    Row("ublkd-nvme-copy-128k", "128 KiB: ublkd nvme, copy", "ublkd", "nvme", peer="nvme-128k",
        settings=(("buffer_mode", "copy"),), block_bytes=128 << 10, depth=64),
    Row("drive", "qemu's drive, block node", "bare", "drive"),
    Row("kublk-drive", "kublk loop on it", "kublk", "drive", peer="drive", words=("--auto_zc",)),
    Row("ublkd-drive", "ublkd nvme", "ublkd", "drive", peer="drive", ratio_max=1.70, second=("kublk-drive", 0.80),
        options=(("force", True),)),
    Row("drive-128k", "128 KiB: qemu's drive, block node", "bare", "drive", block_bytes=128 << 10, depth=64),
    Row("ublkd-drive-128k", "128 KiB: ublkd nvme", "ublkd", "drive", peer="drive-128k", block_bytes=128 << 10, depth=64,
        options=(("force", True),)),
    Row("ublkd-drive-copy-128k", "128 KiB: ublkd nvme, copy", "ublkd", "drive", peer="drive-128k",
        settings=(("buffer_mode", "copy"),), block_bytes=128 << 10, depth=64, options=(("force", True),)),
)


def named(name):
    """The row of that name, else those whose names begin so."""
    return {row.name for row in ROWS if row.name == name} or {row.name for row in ROWS if row.name.startswith(name)}


def chosen(names):
    """The rows that are named, all without names, and the peers they are compared with, in the order above."""
    wanted = {row.name for row in ROWS} if not names else set().union(*map(named, names))
    for row in ROWS:
        if row.name in wanted:
            wanted |= {name for name in (row.peer, *row.second[:1]) if name}
    return [row for row in ROWS if row.name in wanted]
