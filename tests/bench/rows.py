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
    server: str          # bare (the backing itself), loop, kublk, ublkd
    backing: str         # zeroes (none at all), null_blk, tmpfs
    peer: str = ""
    ratio_max: float = 0
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
)


def named(name):
    """The row of that name, else those whose names begin so."""
    return {row.name for row in ROWS if row.name == name} or {row.name for row in ROWS if row.name.startswith(name)}


def chosen(names):
    """The rows that are named, all without names, and the peers they are compared with, in the order above."""
    wanted = {row.name for row in ROWS} if not names else set().union(*map(named, names))
    wanted |= {row.peer for row in ROWS if row.name in wanted and row.peer}
    return [row for row in ROWS if row.name in wanted]
