"""Sizes, blocks, limits, ranges and names: a device says what its backing can do; what cannot be served is refused."""

import contextlib
import errno
import os
import random
import re
from pathlib import Path

import pytest

from backings import stand  # pylint: disable=unused-import
from disk import BLKIOMIN, BLKPBSZGET, Disk, queue_attribute
from load import fio_verify
from machine import run
from ublkd import ApiError, file_device, null_device

KIB = 1 << 10
MIB = 1 << 20
SIZE_MAX = (1 << 63) - 512


def refused(d, device, *words):
    """Adding the device is refused with all these words, and leaves nothing."""
    before = len(d.devices())
    with pytest.raises(ApiError) as caught:
        d.add(device)
    for word in words:
        assert str(word) in caught.value.message, caught.value.message
    assert len(d.devices()) == before


def file_of(path, size_bytes, mode=0o600):
    """A file of random bytes, on the disk; returns the bytes."""
    data = random.Random(size_bytes).randbytes(size_bytes)
    with open(path, "wb") as file:
        file.write(data)
        os.fsync(file.fileno())
    os.chmod(path, mode)
    return data


# --- blocks and sizes -------------------------------------------------------------------------

def test_A27_backing_with_4096_byte_sectors(daemon, stand, tmp_path):
    node = stand.loop(320 * MIB, 4096)
    d = daemon()
    refused(d, file_device("small", node, logical_block_size=512), "512", "4096")
    path = d.add(file_device("a", node))["path"]
    with Disk(path) as disk:
        assert disk.block_bytes == 4096 and disk.number(BLKPBSZGET) >= 4096
        with pytest.raises(OSError, match="Invalid argument"):
            disk.read(512, 512)
    run("mkfs.xfs", "-q", "-f", path, timeout_s=60)
    point = tmp_path / "mounted"
    point.mkdir()
    run("mount", "-t", "xfs", path, point)
    try:
        file_of(point / "file", 300_000)
    finally:
        run("umount", point)
    run("xfs_repair", "-n", path, timeout_s=60)


@pytest.mark.parametrize("block_bytes, size_bytes, warnings", ((512, MIB + 512, 0), (4096, MIB, 1)))
def test_A28_a_tail_that_is_no_whole_block(daemon, tmp_path, block_bytes, size_bytes, warnings):
    data = file_of(tmp_path / "a.img", MIB + 512)
    d = daemon({"devices": [file_device("a", tmp_path / "a.img", io="buffered", logical_block_size=block_bytes)]})
    with Disk(d.path("a")) as disk:
        assert disk.size_bytes == size_bytes == d.device("a")["size_bytes"]
        assert disk.read(size_bytes - block_bytes, block_bytes) == data[size_bytes - block_bytes:size_bytes]
        assert disk.read(MIB, 4096) == data[MIB:size_bytes]
    assert d.log_text().count("are not served") == warnings
    assert d.log_text().count("<4>") == warnings


@pytest.mark.parametrize("size_bytes", (512, 4096 + 512, SIZE_MAX))
def test_A29_null_of_extreme_size_is_read_to_its_end(daemon, size_bytes):
    d = daemon({"devices": [null_device("a", size_bytes)]})
    with Disk(d.path("a")) as disk:
        assert disk.size_bytes == size_bytes
        assert disk.read(size_bytes - 512, 512) == bytes(512)
        disk.write(size_bytes - 512, b"\xff" * 512)


def test_A29_null_of_other_sizes_is_refused(daemon):
    d = daemon()
    for size in (0, 511, 1 << 63, (1 << 64) - 512):
        refused(d, null_device("a", size), "size", SIZE_MAX if size > SIZE_MAX else 512)


def test_A31_largest_request(daemon):
    d = daemon()
    for size in (512, 4095, 4096 + 512, MIB + 512, "1B"):
        refused(d, null_device("a", max_io_size=size), "max_io_size", 4096)
    for size in (4096, 64 * KIB, MIB):
        path = d.add(null_device(f"a{size}", max_io_size=size))["path"]
        assert queue_attribute(path, "max_hw_sectors_kb") == size >> 10
        assert d.device(f"a{size}")["io_bytes_max"] == size
        with Disk(path) as disk:
            disk.write(0, b"\xff" * MIB)
            assert disk.read(0, MIB) == bytes(MIB)


@pytest.mark.parametrize("kind, io", (("tmpfs", "buffered"), ("tmpfs", "auto"), ("loop512", "auto"), ("ext4", "auto")))
def test_A32_client_buffers_of_every_alignment(daemon, stand, kind, io):
    backing = stand.make(kind, 4 * MIB)
    d = daemon({"devices": [file_device("a", backing.path, io=io)]})
    with Disk(d.path("a")) as disk:
        block = disk.block_bytes
        for align in (512, 1024, 4096):
            for shift in range(block.bit_length() - 1, 21, 3):
                data = random.Random(shift + align).randbytes(1 << shift)
                disk.write(block, data, align)
                for other in (512, 1024, 4096):
                    assert disk.read(block, len(data), other) == data, f"{len(data)} bytes, {align} and {other}"


@pytest.mark.parametrize("kind", ("null_blk", "loop4096", "loop512"))
def test_attributes_are_the_backings(daemon, stand, kind):
    backing = stand.make(kind, 16 * MIB)
    d = daemon({"devices": [file_device("a", backing.path)]})
    path = d.path("a")
    for name in ("logical_block_size", "physical_block_size", "minimum_io_size", "rotational", "discard_granularity"):
        assert queue_attribute(path, name) == queue_attribute(backing.path, name), name
    with Disk(path) as disk, Disk(backing.path, os.O_RDONLY) as below:
        assert disk.size_bytes == below.size_bytes
        assert disk.number(BLKIOMIN) == below.number(BLKIOMIN)
    assert queue_attribute(path, "write_cache") == "write back" and queue_attribute(path, "fua") == 1
    assert queue_attribute(path, "write_zeroes_max_bytes") == 2 << 30
    discards = queue_attribute(backing.path, "discard_max_bytes") > 0 and "discard=none" not in d.log_text()
    assert queue_attribute(path, "discard_max_bytes") == (2 << 30 if discards else 0)
    assert queue_attribute(path, "scheduler").startswith("[none]")


def reads_and_merges(node):
    """Reads that the device has completed, and how many it joined to others."""
    words = Path("/sys/block", Path(node).name, "stat").read_text(encoding="ascii").split()
    return int(words[0]), int(words[1])


@pytest.mark.parametrize("max_sectors", (255, 2560))  # no whole pages; more than max_segments pages
def test_the_backing_splits_none_of_our_requests(daemon, stand, max_sectors):
    backing = stand.null_blk(16 * MIB, max_sectors=max_sectors)
    d = daemon({"devices": [file_device("a", backing, max_io_size=MIB)]})
    segments, sector_bytes = queue_attribute(backing, "max_segments"), queue_attribute(backing, "max_sectors_kb") << 10
    assert (segments * 4096 < sector_bytes) == (max_sectors == 2560)
    assert d.device("a")["io_bytes_max"] == min(MIB, segments * 4096, sector_bytes & ~4095)
    before, count = [reads_and_merges(node) for node in (d.path("a"), backing)], 16 * MIB // MIB
    with Disk(d.path("a")) as disk:
        for at in range(count):
            disk.read(at * MIB, MIB)
    ours, below = (tuple(map(int.__sub__, reads_and_merges(node), old))
                   for node, old in zip((d.path("a"), backing), before))
    assert ours[0] >= count and below == (ours[0], 0)


# --- queues and depth -------------------------------------------------------------------------

@pytest.mark.parametrize("depth", (1, 3, 128, 2728, 2729, 4096))
def test_A30_depth_is_served(daemon, tmp_path, depth):
    d = daemon({"devices": [file_device("a", tmp_path / "a.img", size="8MiB", create="sparse", depth=depth,
                                        max_io_size=4096)]})
    assert d.device("a")["depth"] == depth
    fio_verify(d.path("a"), iodepth=depth, size="4m" if depth == 4096 else "1m")


def test_A30_depth_beyond_the_cap_is_refused(daemon):
    d = daemon()
    for depth in (0, 4097, 65536, 1 << 32):
        refused(d, null_device("a", depth=depth), "depth", 4096)


def test_queues_beyond_the_cpus_are_told(daemon):
    cpus = os.cpu_count()
    d = daemon({"devices": [null_device("a", queues=cpus + 1, depth=16), null_device("b", queues=cpus, depth=16)]})
    a, b = d.device("a"), d.device("b")
    assert (a["queues"], a["queues_asked"]) == (cpus, cpus + 1)
    assert (b["queues"], b["queues_asked"]) == (cpus, cpus)
    assert f"{cpus} of {cpus + 1} hardware queues" in d.log_text()


def test_A78_what_is_in_force_is_told(daemon, tmp_path):
    d = daemon({"devices": [file_device("a", tmp_path / "a.img", size="8MiB", create="sparse", depth=17, queues=2)]})
    told = d.ctl_json("list", "-n", str(d.device("a")["id"]))["devices"][0]
    assert (told["queues"], told["queues_asked"], told["depth"]) == (2, 2, 17)
    assert told["buffer_mode"] in ("zero_copy", "copy")
    assert told["facts"]["io"] in ("direct", "buffered")


# --- read-only --------------------------------------------------------------------------------

def open_modes(d, path):
    """How the daemon has the file open."""
    modes = set()
    for link in Path(f"/proc/{d.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            if os.readlink(link) == str(path):
                text = Path(f"/proc/{d.pid}/fdinfo/{link.name}").read_text(encoding="ascii")
                modes.add(int(re.search(r"flags:\s*(\d+)", text)[1], 8) & os.O_ACCMODE)
    return modes


@pytest.mark.kernel_log("Trying to write to read-only")
def test_A36_read_only(daemon, tmp_path):
    path = tmp_path / "a.img"
    data = file_of(path, MIB, mode=0o444)
    os.utime(path, (1_000_000_000, 1_000_000_000))
    before = os.stat(path)
    d = daemon({"devices": [file_device("a", path, read_only=True)]})
    node = d.path("a")
    assert open_modes(d, path) == {os.O_RDONLY}
    with Disk(node, os.O_RDONLY | os.O_DIRECT) as disk:
        assert disk.read_only and d.device("a")["read_only"]
        assert disk.read(0, MIB) == data
    for op in ("write", "discard", "zero"):
        with pytest.raises(OSError) as caught:
            with Disk(node) as disk:
                disk.write(0, bytes(4096)) if op == "write" else getattr(disk, op)(0, 4096)
        assert caught.value.errno in (errno.EROFS, errno.EACCES, errno.EPERM, errno.EOPNOTSUPP)
    d.stop()
    after = os.stat(path)
    assert (after.st_mtime_ns, after.st_ctime_ns, after.st_atime_ns) == \
        (before.st_mtime_ns, before.st_ctime_ns, before.st_atime_ns)
    with open(path, "rb") as file:
        assert file.read() == data


# --- one backing, several devices -------------------------------------------------------------

@pytest.mark.parametrize("make", (os.symlink, os.link), ids=("symlink", "hardlink"))
def test_A37_a_file_by_two_names(daemon, tmp_path, make):
    path, other = tmp_path / "a.img", tmp_path / "b.img"
    file_of(path, MIB)
    make(path, other)
    d = daemon({"devices": [file_device("first", path)]})
    refused(d, file_device("second", other), "first")
    refused(d, file_device("second", other, read_only=True), "first")
    d.remove("first")
    d.add(file_device("second", other, read_only=True))
    d.add(file_device("third", path, read_only=True))
    refused(d, file_device("fourth", path), "second")


def test_A37_a_block_device_by_two_names(daemon, stand, tmp_path):
    node = stand.loop(MIB)
    os.symlink(node, tmp_path / "other")
    d = daemon({"devices": [file_device("first", node)]})
    refused(d, file_device("second", tmp_path / "other"), "first")


def test_A37_disjoint_ranges_of_a_file(daemon, tmp_path):
    path = tmp_path / "a.img"
    data = bytearray(file_of(path, 2 * MIB))
    d = daemon()

    def part(name, offset, length):
        device = file_device(name, path)
        device["target"].update(offset=offset, length=length)
        return device
    first = d.add(part("first", 64 * KIB, 64 * KIB))["path"]
    second = d.add(part("second", 128 * KIB, 64 * KIB))["path"]
    refused(d, part("third", 128 * KIB - 4096, 8192), "first")
    refused(d, part("third", MIB, MIB + 4096), "end beyond")
    refused(d, part("third", 2 * MIB, 4096), "end beyond")
    with Disk(first) as one, Disk(second) as two:
        assert one.size_bytes == two.size_bytes == 64 * KIB
        one.write(0, b"\x01" * 64 * KIB)
        two.write(0, b"\x02" * 64 * KIB)
    data[64 * KIB:192 * KIB] = b"\x01" * 64 * KIB + b"\x02" * 64 * KIB
    d.stop()
    with open(path, "rb") as file:
        assert file.read() == bytes(data)


# --- files that are created -------------------------------------------------------------------

@pytest.mark.parametrize("create, least, most", (("sparse", 0, MIB), ("preallocate", 8 * MIB, 9 * MIB)))
def test_file_is_created(daemon, tmp_path, create, least, most):
    path = tmp_path / "new.img"
    config = file_device("a", path, size="8MiB", create=create)
    d = daemon({"devices": [config]})
    made = os.stat(path)
    assert made.st_size == 8 * MIB and least <= made.st_blocks * 512 <= most
    with Disk(d.path("a")) as disk:
        assert disk.read(8 * MIB - 4096, 4096) == bytes(4096)
        disk.write(0, b"\x07" * 4096)
    d.remove("a")
    with Disk(d.add(config)["path"]) as disk:  # used as it is
        assert disk.read(0, 4096) == b"\x07" * 4096
    d.remove("a")
    refused(d, file_device("a", path, size="4MiB", create=create), "size")
    assert os.stat(path).st_size == 8 * MIB


def test_created_file_goes_when_the_add_fails(daemon, tmp_path):
    d = daemon({"devices": [null_device("a", id=3)]})
    for create in ("sparse", "preallocate"):
        path = tmp_path / f"{create}.img"
        refused(d, file_device("b", path, size="8MiB", create=create, id=3), "in use")
        assert not path.exists()


def test_what_does_not_fit_is_not_preallocated(daemon, stand):
    path = stand.tmpfs(4 * MIB) / "new.img"
    d = daemon()
    refused(d, file_device("a", path, size="64MiB", create="preallocate"), "preallocate", path)
    assert not path.exists()
