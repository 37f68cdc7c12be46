"""NVMe passthrough: the data is right on every kind of drive, in each way that it moves, and the drive sees what the
client asked for, no more and no less."""

import os
import random
import re
from pathlib import Path

import pytest

import probes
from backings import stand  # pylint: disable=unused-import
from disk import Disk, queue_attribute
from load import fio, fio_verify
from machine import run
from nvme import KINDS, MIB, Trace, drives, facts, nvme_device, of_guest  # pylint: disable=unused-import
from qmp import Monitor
from ublkd import BUILD


def zero_copy_kernel():
    return os.environ["UBLKD_KERNEL"] != "6.12"


def ops_are_clean(told):
    return all(op["errors"] == 0 for op in told["ops"].values()) and told["tags_taken"] == told["tags_put"]


@pytest.mark.parametrize("mode", ("auto", "copy"))
@pytest.mark.parametrize("kind", KINDS)
def test_A41_data_is_right(daemon, drives, kind, mode):
    """All sizes from one block to 1 MiB, the first and the last block, and the same bytes by the kernel's own node."""
    drive = drives.make(kind)
    d = daemon({"devices": [nvme_device("a", drive, buffer_mode=mode, queues=2)]})
    told = d.device("a")
    assert told["buffer_mode"] == ("zero_copy" if mode == "auto" and zero_copy_kernel() else "copy")
    assert told["logical_block_bytes"] == drive.block_bytes
    assert told["size_bytes"] == int(Path("/sys/block", Path(drive.block).name, "size").read_text()) * 512
    fio_verify(told["path"], bsrange=f"{drive.block_bytes}-1m", size="16m", iodepth=32)
    data = random.Random(41).randbytes(128 << 10)
    with Disk(told["path"]) as disk:
        places = {0: drive.block_bytes, MIB: len(data), told["size_bytes"] - drive.block_bytes: drive.block_bytes}
        for offset, length in places.items():
            disk.write(offset, data[:length])
        disk.flush()
        assert all(disk.read(offset, length) == data[:length] for offset, length in places.items())
    with Disk(drive.block, os.O_RDONLY | os.O_DIRECT) as kernels_own:
        assert all(kernels_own.read(offset, length) == data[:length] for offset, length in places.items())
    assert ops_are_clean(d.device("a"))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_copied_behind_our_back(daemon, drives, kind):
    """No command goes to a worker thread, none is bounced."""
    drive = drives.make(kind)
    d = daemon({"devices": [nvme_device("a", drive)]})
    with probes.Probes() as counted:
        fio_verify(d.path("a"), bs="4k", size="4m", iodepth=64)
        fio(d.path("a"), rw="randrw", bs="64k", size="16m", iodepth=16)
        fio(d.path("a"), rw="randread", bs="1m", size="16m", iodepth=4)
        counts = counted.counts()
    assert counts[probes.BOUNCES] == 0 and counts[probes.PUNTS] == 0, counts


@pytest.mark.parametrize("kind", KINDS)
def test_the_drives_limits_are_the_devices(daemon, drives, kind):
    """All that the kernel needs to send requests that fit. Layout counts where the application's pages go to it."""
    drive = drives.make(kind)
    d = daemon({"devices": [nvme_device("a", drive)]})
    told = d.device("a")
    names = ["logical_block_size", "physical_block_size", "write_cache", "discard_granularity",
             "write_zeroes_max_bytes"]
    if told["buffer_mode"] == "zero_copy":
        names += ["max_hw_sectors_kb", "virt_boundary_mask", "max_segments", "dma_alignment"]
    shown = {name: str(queue_attribute(told["path"], name)) for name in names}
    assert shown == {name: drive.queue(name) for name in names}


@pytest.mark.parametrize("kind", ("pci512", "loop4096"))
def test_A18_a_file_system_is_durable(daemon, drives, kind, tmp_path):
    drive = drives.make(kind)
    with_cache = drive.queue("write_cache") == "write back"
    d = daemon({"devices": [nvme_device("a", drive, generic=False)]})
    path, where = d.path("a"), tmp_path / "mnt"
    where.mkdir()
    run("mkfs.ext4", "-q", "-F", path)
    run("mount", path, where)
    data = random.Random(18).randbytes(4 * MIB)
    try:
        with open(where / "file", "wb") as out:
            out.write(data)
            os.fsync(out.fileno())
    finally:
        run("umount", where)
    run("fsck.ext4", "-fn", path)
    assert (d.device("a")["ops"]["flush"]["count"] > 0) == with_cache
    d.remove("a")
    run("mount", "-o", "ro", drive.block, where)
    try:
        assert (where / "file").read_bytes() == data
    finally:
        run("umount", where)


def test_A19_the_drive_sees_one_flush_for_each_of_the_client(daemon, drives):
    drive = drives.make("pci512")
    d = daemon({"devices": [nvme_device("a", drive, queues=2)]})
    with Monitor() as monitor, Trace(monitor) as trace:
        for _ in range(10):
            with Disk(d.path("a")) as disk:
                disk.write(0, bytes(4096))
                disk.flush()
    flushes = d.device("a")["ops"]["flush"]["count"]
    assert flushes >= 10 and trace.commands.count("FLUSH") == flushes


def test_A40_no_command_is_larger_than_the_drive_takes(daemon, drives):
    """32 KiB, by MDTS; the client's requests of 1 MiB arrive already cut."""
    drive = drives.make("fault")
    d = daemon({"devices": [nvme_device("a", drive)]})
    assert d.device("a")["io_bytes_max"] == 32 << 10
    with Monitor() as monitor, Trace(monitor) as trace:
        fio_verify(d.path("a"), bs="1m", size="4m", iodepth=2)
    assert ops_are_clean(d.device("a")) and len(trace.moves) >= 2 * 128
    assert max(blocks for _, _, _, blocks in trace.moves) == (32 << 10) // 512


def test_A46_discard_of_all_and_of_random_ranges(daemon, drives):
    """An 8 GiB drive of 4 KiB blocks; what is not discarded stays."""
    drive = drives.make("pci4096")
    d = daemon({"devices": [nvme_device("a", drive)]})
    path, size = d.path("a"), d.device("a")["size_bytes"]
    assert size == 8 << 30
    run("blkdiscard", path)
    chance = random.Random(46)
    piece = 64 << 10
    data = {number: chance.randbytes(piece) for number in range(16)}
    with Disk(path) as disk:
        for number, content in data.items():
            disk.write(number * piece, content)
        for _ in range(100):  # within one piece each: whole blocks, the neighbours are known
            number = chance.randrange(len(data))
            first, blocks = chance.randrange(8), 1 + chance.randrange(8)
            offset, length = first * 4096, blocks * 4096
            disk.discard(number * piece + offset, length)
            data[number] = data[number][:offset] + bytes(length) + data[number][offset + length:]
        for number, content in data.items():
            assert disk.read(number * piece, piece) == content, f"piece {number}"  # qemu's drive reads zeroes there
        disk.zero(0, MIB)
        assert disk.read(0, MIB) == bytes(MIB)
        assert disk.read(size - 4096, 4096) == bytes(4096)
    assert ops_are_clean(d.device("a"))


def test_A47_the_other_namespace_is_not_touched(daemon):
    first, second = of_guest("two", 1), of_guest("two", 2)
    one, two = bytes([1]) * MIB, bytes([2]) * MIB
    for drive, content in ((first, one), (second, two)):
        with Disk(drive.block) as disk:
            disk.write(0, content)
            disk.flush()
    d = daemon({"devices": [nvme_device("a", second)]})
    assert facts(d)["nsid"] == "2"
    fio_verify(d.path("a"), bs="64k", size="1m")
    with Disk(d.path("a")) as disk:
        assert disk.read(0, MIB) != two
    with Disk(first.block) as disk:
        assert disk.read(0, MIB) == one


def test_ranges_of_one_drive_share_its_tags(daemon, drives):
    """Two devices on one namespace and one tag set, as deep as the drive; the bytes between them stay."""
    drive = drives.make("loop512")
    size = 8 * MIB
    with Disk(drive.block) as disk:
        disk.write(0, b"\x55" * MIB)
        disk.write(9 * MIB, b"\x66" * MIB)
        disk.write(18 * MIB, b"\x77" * MIB)
    d = daemon({"tag_sets": {"drive": {}}, "devices": [
        nvme_device("a", drive, tag_set="drive", depth=64, target={"offset": MIB, "length": size}),
        nvme_device("b", drive, tag_set="drive", depth=64, target={"offset": 10 * MIB, "length": size})]})
    tag_set, = d.call("list")["tag_sets"]
    assert tag_set["depth"] == 127, "what a queue of the loop driver takes"
    for name in "ab":
        assert d.device(name)["size_bytes"] == size
        fio_verify(d.path(name), bsrange="512-64k", size="8m", iodepth=32)
    with Disk(drive.block, os.O_RDONLY | os.O_DIRECT) as disk:
        assert disk.read(0, MIB) == b"\x55" * MIB
        assert disk.read(9 * MIB, MIB) == b"\x66" * MIB
        assert disk.read(18 * MIB, MIB) == b"\x77" * MIB


@pytest.mark.parametrize("kind", ("pci512", "loop4096"))
def test_the_contract_suite(drives, kind):
    """What every target must do, on a real drive, under the address sanitizer."""
    drive = drives.make(kind)
    done = run(BUILD.parent / "asan/tests/contract_test", "--gtest_filter=*nvme*", check=False, timeout_s=85,
               env={**os.environ, "UBLKD_CONTRACT_NVME": drive.generic})
    passed = re.search(r"\[  PASSED  \] (\d+) tests", done.stdout)
    assert done.returncode == 0 and passed, done.stdout[-4000:] + done.stderr[-4000:]
    assert int(passed[1]) >= 3 * 10


def test_a_drive_behind_tcp(daemon, drives, stand):
    drive = drives.over(stand.null_blk(32 * MIB), transport="tcp")
    d = daemon({"devices": [nvme_device("a", drive)]})
    assert facts(d)["transport"] == "tcp"
    fio_verify(d.path("a"), bsrange="512-256k", size="8m", iodepth=32)
    assert ops_are_clean(d.device("a"))
