"""Queues x depth x backing with fio verify, one pinned job per queue.

By default each pair of (queues, depth) and each pair with a backing is met once; --full runs every combination.
"""

import pytest

from backings import stand  # pylint: disable=unused-import
from load import fio
from ublkd import file_device

QUEUES = (1, 2, 4)
DEPTHS = (1, 2, 16, 128, 1024)
BACKINGS = ("tmpfs", "ext4", "null_blk")
MIB = 1 << 20
JOB_MIB = 1
IO_BYTES_MAX = 64 << 10  # four queues of 1024 slots: 256 MiB of buffers


def backing_of(queues, depth):
    """A Latin square: each backing meets each number of queues, and each depth."""
    return BACKINGS[(QUEUES.index(queues) + DEPTHS.index(depth)) % len(BACKINGS)]


def rows(full):
    for queues in QUEUES:
        for depth in DEPTHS:
            for kind in BACKINGS if full else (backing_of(queues, depth),):
                yield pytest.param(queues, depth, kind, marks=[pytest.mark.cpu4] if queues == 4 else [])


def pytest_generate_tests(metafunc):
    metafunc.parametrize("queues, depth, kind", rows(metafunc.config.getoption("--full")))


def test_A21_every_queue_serves_its_own(daemon, stand, count, queues, depth, kind):
    count("A21 backings of queues x depth", 1, len(BACKINGS))
    backing = stand.make(kind, queues * JOB_MIB * MIB)
    d = daemon({"devices": [file_device("a", backing.path, queues=queues, depth=depth, max_io_size=IO_BYTES_MAX)]})
    told = d.device("a")
    assert (told["queues"], told["queues_asked"], told["depth"]) == (queues, queues, depth)
    fio(told["path"], rw="randwrite", verify="crc32c", verify_fatal=1, size=f"{JOB_MIB}m", numjobs=queues,
        offset_increment=f"{JOB_MIB}m", iodepth=min(depth, 256), cpus_allowed=f"0-{queues - 1}",
        cpus_allowed_policy="split", group_reporting=True)
    told = d.device("a")
    assert told["ops"]["write"]["bytes"] == queues * JOB_MIB * MIB
    assert all(op["errors"] == 0 for op in told["ops"].values())
    assert told["active"] == 0 and told["tags_taken"] == told["tags_put"]
    used = [queue for tag_set in d.call("list")["tag_sets"] for queue in tag_set["queues"] if queue["turns"] > 4]
    assert len(used) == queues
