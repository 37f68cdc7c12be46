"""The right bytes: what was written is read, what was not asked for never changes, what was made durable stays."""

import os
import random
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from backings import KINDS, power_cut, stand  # pylint: disable=unused-import
from disk import UNWRITTEN, Disk, queue_attribute
from load import fio
from machine import run
from model import Mismatch, Model, RandomIo
from ublkd import file_device, null_device

KIB = 1 << 10
MIB = 1 << 20


def pattern(length, seed=1):
    return random.Random(seed).randbytes(length)


def read_file(path, offset=0, length=-1):
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(length)


def fill_backing(path, data):
    """Writes a backing from its beginning, past every cache that a later direct read would not see."""
    with open(path, "r+b") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def in_threads(work, items):
    """Runs work(item) for each item at once; the first failure is raised."""
    with ThreadPoolExecutor(len(items)) as pool:
        return list(pool.map(work, items))


# --- the byte-exact model ---------------------------------------------------------------------

WINDOW_BEGIN = 1 * MIB
WINDOW_BYTES = 4 * MIB


@pytest.mark.limit(600)
@pytest.mark.parametrize("kind", KINDS)
def test_model_agrees_byte_by_byte(daemon, stand, count, kind):
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    steps = count("model steps of a thread", 150, 4000)
    backing = stand.make(kind, WINDOW_BEGIN + WINDOW_BYTES + MIB)
    guard = pattern(WINDOW_BEGIN + WINDOW_BYTES + MIB)
    fill_backing(backing.path, guard)
    config = file_device("a", backing.path, queues=2, depth=8)
    config["target"].update(offset=WINDOW_BEGIN, length=WINDOW_BYTES)
    d = daemon({"devices": [config]})
    path = d.path("a")
    with Disk(path) as disk:
        block_bytes = disk.block_bytes
        disk.unmap(0, WINDOW_BYTES)
    half = WINDOW_BYTES // 2
    runs = [RandomIo(Disk(path), begin, half // block_bytes, block_bytes, seed + begin, backing.discard_zeroes)
            for begin in (0, half)]
    in_threads(lambda one: one.run(steps), runs)
    for one in runs:
        one.check_all()
        one.disk.flush()
        one.disk.close()
    assert all(op["errors"] == 0 for op in d.device("a")["ops"].values())
    d.stop()
    found = read_file(backing.path)
    assert found[:WINDOW_BEGIN] == guard[:WINDOW_BEGIN], "bytes before the device's part changed"
    assert found[WINDOW_BEGIN + WINDOW_BYTES:] == guard[WINDOW_BEGIN + WINDOW_BYTES:], "bytes behind it changed"
    for number, one in enumerate(runs):
        begin = WINDOW_BEGIN + number * half
        one.model.check(0, found[begin:begin + half])


def test_A75_checker_flags_a_stale_block(daemon, tmp_path):
    path = tmp_path / "a.img"
    d = daemon({"devices": [file_device("a", path, size="1MiB", create="sparse", logical_block_size=4096)]})
    with Disk(d.path("a")) as disk:
        model = Model(256, 4096, seed=7)
        for _ in range(2):
            data = model.new_data(8, 2)
            disk.write(8 * 4096, data)
            model.wrote(8, data)
        model.check(8, disk.read(8 * 4096, 8192))
        with open(path, "r+b") as file:
            file.seek(9 * 4096)
            file.write(model.block(9, 1))
        with pytest.raises(Mismatch, match="block 9 .*expected generation 2, found generation 1: stale"):
            model.check(8, disk.read(8 * 4096, 8192))


@pytest.mark.parametrize("planted, found", (
    (lambda model: model.block(4, 1), "block 4 of generation 1"),
    (lambda model: bytes(512), "zeroes"),
    (lambda model: bytes([UNWRITTEN]) * 512, "nobody wrote it"),
    (lambda model: model.block(3, 1)[:256] + bytes(256), "the beginning of generation 1"),
    (lambda model: pattern(512), "rubbish"),
    (lambda model: Model(8, 512, seed=8).block(3, 1), "another run"),
))
def test_A75_checker_flags_other_faults(planted, found):
    model = Model(8, 512, seed=7)
    model.wrote(0, model.new_data(0, 8))
    with pytest.raises(Mismatch, match=found):
        model.check(3, planted(model))


@pytest.mark.kernel_log("I/O error, dev ublkb")
def test_A76_only_acknowledged_writes_are_judged(daemon, tmp_path, count):
    inner = file_device("a", tmp_path / "a.img", size="4MiB", create="sparse")["target"]
    target = {"type": "fault", "ops": ["write"], "every": 5, "target": inner}
    d = daemon({"devices": [{"name": "a", "target": target}]})
    steps = count("A76 writes", 200, 2000)
    refused = 0
    with Disk(d.path("a")) as disk:
        size = disk.block_bytes
        model = Model(4 * MIB // size, size, seed=9)
        chosen = random.Random(9)
        for _ in range(steps):
            length = chosen.choice((1, 2, 8))
            first = chosen.randrange(model.blocks - length)
            data = model.new_data(first, length)
            try:
                disk.write(first * size, data)
                model.wrote(first, data)
            except OSError:
                refused += 1
                model.failed(first, length)
        for first in range(0, model.blocks, MIB // size):
            model.check(first, disk.read(first * size, MIB))
    assert refused == steps // 5 == d.device("a")["ops"]["write"]["errors"]


# --- flush and FUA ----------------------------------------------------------------------------

def test_A20_each_flush_stands_for_itself(daemon, tmp_path, count):
    d = daemon({"devices": [file_device("a", tmp_path / "a.img", size="8MiB", create="sparse")]})
    path = d.path("a")
    rounds = count("A20 write and fsync", 150, 1000)
    with Disk(path) as disk:
        data = pattern(4096)
        for number in range(rounds):
            disk.write(number % 2048 * 4096, data)
            disk.flush()
    assert d.device("a")["ops"]["flush"]["count"] >= rounds

    def write_and_sync(number):
        with Disk(path) as mine:
            mine.write(number * 4096, pattern(4096, number))
            mine.flush()
    in_threads(write_and_sync, range(32))
    assert d.device("a")["ops"]["flush"]["errors"] == 0


def test_a_sync_passes_a_volatile_cache(daemon, stand):
    """A power cut of the backing: what was synced, and what was written with O_DSYNC, is there."""
    node = stand.null_blk(64 * MIB, blocksize=4096, cache_size=32)
    d = daemon({"devices": [file_device("a", node)]})
    path = d.path("a")
    data = [pattern(4096, seed) for seed in range(3)]
    with Disk(path) as disk, Disk(path, os.O_RDWR | os.O_DIRECT | os.O_DSYNC) as synchronous:
        disk.write(0, data[0])
        disk.flush()
        synchronous.write(1 * MIB, data[1])
        disk.write(2 * MIB, data[2])
    d.stop()
    power_cut(node)
    with Disk(node) as disk:
        assert disk.read(0, 4096) == data[0], "a synced block was lost"
        assert disk.read(1 * MIB, 4096) == data[1], "a block written with O_DSYNC was lost"
        assert disk.read(2 * MIB, 4096) != data[2], "nothing is lost in this cut: the test shows nothing"


def flushes(node):
    """Flushes that a disk has completed."""
    with open(f"/sys/block/{os.path.basename(node)}/stat", encoding="ascii") as text:
        return int(text.read().split()[15])


def test_fua_is_a_synchronous_write(daemon, stand, tmp_path):
    """A file system overwrites with O_DSYNC by FUA, without a flush. The backing has a cache and no FUA of its own, so
    that a synchronous write to it is followed by a flush, which is counted."""
    node = stand.null_blk(64 * MIB, blocksize=4096, cache_size=32, fua=0)
    d = daemon({"devices": [file_device("a", node)]})
    path = d.path("a")
    assert queue_attribute(path, "fua") == 1 and queue_attribute(path, "write_cache") == "write back"
    run("mkfs.ext4", "-q", "-F", "-O", "^has_journal", path)
    point = tmp_path / "mounted"
    point.mkdir()
    run("mount", "-t", "ext4", path, point)
    try:
        with Disk(point / "file", os.O_RDWR | os.O_CREAT | os.O_DIRECT | os.O_DSYNC) as file:
            file.write(0, pattern(4096))
            before = flushes(node), d.device("a")["ops"]
            for seed in range(8):
                file.write(0, pattern(4096, seed))
            after = flushes(node), d.device("a")["ops"]
    finally:
        run("umount", point)
    assert after[1]["write"]["count"] >= before[1]["write"]["count"] + 8
    assert after[1]["flush"]["count"] < before[1]["flush"]["count"] + 8, "the client sent flushes, not FUA"
    assert after[0] >= before[0] + 8, "FUA writes did not reach the backing as synchronous ones"


# --- ranges -----------------------------------------------------------------------------------

@pytest.mark.limit(120)
def test_A22_ranges_above_2_gib(daemon, stand):
    size = 6 << 30
    folder = stand.ext4(7 << 30)
    backing = stand.file(size, folder)
    with open(backing, "r+b") as file:
        for offset in (0, 3 << 30, size - MIB):
            file.seek(offset)
            file.write(pattern(MIB))
    d = daemon({"devices": [file_device("a", backing)]})
    path = d.path("a")
    run("blkdiscard", path)
    assert os.stat(backing).st_blocks * 512 < MIB, "the space was not given back"
    with Disk(path) as disk:
        for offset in (0, 3 << 30, size - MIB):
            assert disk.read(offset, MIB) == bytes(MIB)
            disk.write(offset, pattern(MIB))
    run("blkdiscard", "-z", path)
    with Disk(path) as disk:
        for offset in (0, 3 << 30, size - MIB):
            assert disk.read(offset, MIB) == bytes(MIB)
    run("blkdiscard", path)
    run("mkfs.ext4", "-q", "-F", "-E", "discard", path, timeout_s=60)
    run("e2fsck", "-fn", path, timeout_s=60)
    ops = d.device("a")["ops"]
    assert ops["discard"]["count"] >= 9 and ops["write_zeroes"]["count"] >= 3
    assert all(op["errors"] == 0 for op in ops.values())


EDGES = ((0, 64 * KIB), (512 * KIB, 4 * KIB), (MIB - 4 * KIB, 4 * KIB))


RANGE_OPS = ("discard", "zero", "unmap")


@pytest.mark.parametrize("kind", ("tmpfs", "ext4", "loop512", "loop4096"))
def test_A23_exactly_the_asked_range(daemon, stand, kind):
    backing = stand.make(kind, MIB)
    d = daemon({"devices": [file_device("a", backing.path)]})
    with Disk(d.path("a")) as disk:
        for op in RANGE_OPS:
            expected = bytearray(pattern(MIB))
            disk.write(0, expected)
            for offset, length in EDGES:
                getattr(disk, op)(offset, length)
                expected[offset:offset + length] = bytes(length)
            assert disk.read(0, MIB) == bytes(expected), op
        disk.flush()
    d.stop()
    assert read_file(backing.path) == bytes(expected)


@pytest.mark.parametrize("kind, io", (("tmpfs", "buffered"), ("ext4", "auto"), ("loop512", "auto")))
def test_A24_one_small_block(daemon, stand, kind, io):
    backing = stand.make(kind, MIB)
    d = daemon({"devices": [file_device("a", backing.path, io=io, logical_block_size=512)]})
    with Disk(d.path("a")) as disk:
        for op in RANGE_OPS:
            expected = bytearray(pattern(MIB))
            disk.write(0, expected)
            getattr(disk, op)(512, 512)
            expected[512:1024] = bytes(512)
            assert disk.read(0, MIB) == bytes(expected), op


# --- verify with fio --------------------------------------------------------------------------

@pytest.mark.limit(900)
@pytest.mark.parametrize("shape", (
    {"bs": "4k", "iodepth": 8},
    {"bs": "4k", "iodepth": 64},
    {"bsrange": "512-1m", "blockalign": 512, "iodepth": 16},
), ids=("4k-depth8", "4k-depth64", "mixed"))
def test_A26_verify_after_opening_again(daemon, stand, count, shape):
    size = count("A26 MiB", 2, 256)
    folder = stand.ext4((size + size // 4 + 16) * MIB)
    config = file_device("a", stand.file(size * MIB, folder), depth=64, logical_block_size=512)
    d = daemon({"devices": [config]})
    job = {"rw": "randwrite", "verify": "crc32c", "verify_fatal": 1, "size": f"{size}m", **shape}
    fio(d.path("a"), **job, do_verify=0, end_fsync=1, timeout_s=400)
    d.remove("a")
    fio(d.add(config)["path"], **job, verify_only=True, timeout_s=400)


def test_file_system_lives_on_it(daemon, stand, tmp_path):
    d = daemon({"devices": [file_device("a", tmp_path / "a.img", size="16MiB", create="sparse", queues=2)]})
    path = d.path("a")
    run("mkfs.ext4", "-q", "-F", path)
    data = [pattern(200_000 + number, number) for number in range(6)]
    point = tmp_path / "mounted"
    point.mkdir()
    for last in (False, True):
        run("mount", "-t", "ext4", path, point)
        try:
            for number, text in enumerate(data):
                if last:
                    assert zlib.crc32(read_file(point / str(number))) == zlib.crc32(text)
                    continue
                with open(point / str(number), "wb") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
        finally:
            run("umount", point)
    run("e2fsck", "-fn", path)


# --- null -------------------------------------------------------------------------------------

SIZES = (512, 1024, 4096, 12 * KIB, 64 * KIB, 512 * KIB, MIB)


@pytest.mark.parametrize("depth", (1, 32))
def test_null_reads_zeroes_at_every_byte(daemon, depth):
    d = daemon({"devices": [null_device("a", "64MiB", depth=depth, max_io_size="1MiB")]})
    path = d.path("a")

    def write_and_read(seed):
        chosen = random.Random(seed)
        garbage = b"\xff" * MIB
        with Disk(path) as disk:
            for _ in range(40):
                disk.write(chosen.randrange(64) * 512, garbage[:chosen.choice(SIZES)])
                length = chosen.choice(SIZES)
                found = disk.read(chosen.randrange(64) * 512, length)
                assert found == bytes(length), f"seed {seed}: {length} bytes are not all zeroes"
    in_threads(write_and_read, range(3))


def test_a_slot_is_read_right_after_it_was_written(daemon, tmp_path):
    """One slot only: each read comes into the buffer of the last write, and may show nothing of it."""
    d = daemon({"devices": [file_device("a", tmp_path / "a.img", size="8MiB", create="sparse", depth=1)]})
    expected = bytearray(8 * MIB)
    with Disk(d.path("a")) as disk:
        for number, length in enumerate(SIZES[2:] * 3):
            data = pattern(length, number)
            disk.write(4 * MIB, data)
            expected[4 * MIB:4 * MIB + length] = data
            for offset in (0, 4 * MIB):
                assert disk.read(offset, length) == expected[offset:offset + length]
                assert disk.read(offset, 4096) == expected[offset:offset + 4096]
