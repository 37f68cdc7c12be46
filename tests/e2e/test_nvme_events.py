"""NVMe passthrough: failing blocks, controller resets, drives that grow, shrink or go."""

import contextlib
import errno
import fcntl
import os
import random
import struct
import subprocess
import time
from pathlib import Path

import pytest

from backings import stand  # pylint: disable=unused-import
from disk import Disk
from load import Guard, fio_verify, words_of
from machine import IO_ERROR, wait_until
from nvme import MIB, drives, facts, nvme_device, of_guest  # pylint: disable=unused-import
from qmp import Monitor

ANY_ERROR = IO_ERROR.pattern + "|nvme|ublkb|timeout|blk_update"
FAULTY_SECTOR = 2048


def fio_in_background(path, **options):
    words = words_of(path, rw="randread", iodepth=16, **options)
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def image_is(monitor, node):
    monitor.run("blockdev-reopen", options=[
        {"driver": "throttle", "node-name": "tb", "throttle-group": "tg", "file": node, "discard": "unmap"}])


@contextlib.contextmanager
def faults(*rules):
    """The drive's image has these faults meanwhile."""
    with Monitor() as monitor:
        monitor.run("blockdev-add", **{"driver": "blkdebug", "node-name": "db", "image": "fb", "discard": "unmap",
                                       "inject-error": list(rules)})
        image_is(monitor, "db")
        try:
            yield
        finally:
            image_is(monitor, "fb")
            monitor.run("blockdev-del", **{"node-name": "db"})


@pytest.mark.kernel_log(ANY_ERROR)
def test_A39_a_block_that_cannot_be_written_and_a_flush_that_fails(daemon, drives):
    """Each is one error at the client; the next flush, after another write, is good."""
    drive = drives.make("fault")
    d = daemon({"devices": [nvme_device("a", drive, target={"retries": 0})]})
    data = random.Random(40).randbytes(4096)
    with Disk(d.path("a")) as disk:
        with faults({"event": "none", "iotype": "write", "errno": 5, "sector": FAULTY_SECTOR}):
            with pytest.raises(OSError):
                disk.write(FAULTY_SECTOR * 512, data)
            disk.write(0, data)
        with faults({"event": "pwritev", "iotype": "flush", "errno": 5, "once": True}):
            disk.write(0, data)  # arms it
            with pytest.raises(OSError):
                disk.flush()
            disk.flush()
        assert disk.read(0, 4096) == data
    told = d.device("a")
    assert told["ops"]["write"]["errors"] == 1 and told["ops"]["flush"]["errors"] == 1
    assert "type 2, code 0x80" in told["facts"]["statuses"]


@pytest.mark.kernel_log(ANY_ERROR)
def test_a_drive_whose_first_block_is_bad_is_served(daemon, drives):
    drive = drives.make("fault")
    d = daemon()
    with faults({"event": "none", "iotype": "read", "errno": 5, "sector": 0}):
        d.add(nvme_device("a", drive))
        assert "LBA 0" in d.log_text() and "served all the same" in d.log_text()
        with Disk(d.path("a")) as disk:
            assert len(disk.read(MIB, 4096)) == 4096


@pytest.mark.kernel_log(ANY_ERROR)
def test_A39_a_block_that_fails(daemon, drives):
    """The client has an error, the log and the status say which; what follows works, and so does the block again."""
    drive = drives.make("fault")
    d = daemon({"devices": [nvme_device("a", drive, target={"retries": 3})]})
    data = random.Random(39).randbytes(4096)
    with Disk(d.path("a")) as disk:
        for sector in (0, FAULTY_SECTOR):
            disk.write(sector * 512, data)
        disk.flush()
        with faults({"event": "none", "iotype": "read", "errno": 5, "sector": FAULTY_SECTOR}):
            with pytest.raises(OSError) as error:
                disk.read(FAULTY_SECTOR * 512, 4096)
            assert error.value.errno in (errno.ENODATA, errno.EIO)
            assert disk.read(0, 4096) == data
        assert disk.read(FAULTY_SECTOR * 512, 4096) == data
    told = d.device("a")
    assert told["ops"]["read"]["errors"] == 1
    statuses, retried = told["facts"]["statuses"], int(told["facts"]["retried"])
    assert "type 2, code 0x81" in statuses
    assert retried == 3 and "x4" in statuses, "the first and three retries"
    wait_until(lambda: "type 2, code 0x81" in d.log_text(), what="the log says it")
    assert f"read of LBA {FAULTY_SECTOR}" in d.log_text()


@pytest.mark.kernel_log(ANY_ERROR)
@pytest.mark.parametrize("kind", ("pci512", "loop512"))
def test_A45_resets_under_load(daemon, drives, count, kind):
    resets = count(f"A45 resets of {kind}", short=3, full=12)
    drive = drives.make(kind)
    d = daemon({"devices": [nvme_device("a", drive)]})
    with Guard(d.path("a"), stall_max_s=30, rate_iops="400,400", iodepth=16):
        for _ in range(resets):
            time.sleep(0.7)
            drive.reset.write_text("1", encoding="ascii")
    assert all(op["errors"] == 0 for op in d.device("a")["ops"].values())


@pytest.mark.kernel_log(ANY_ERROR)
def test_commands_cancelled_by_a_reset_are_sent_again(daemon, drives):
    """They are at the drive, which takes its time, when the controller is reset: the TCP host cancels them (a loop
    waits for them instead)."""
    drive = drives.make("tcp512", irqmode=2, completion_nsec=300_000_000)
    d = daemon({"devices": [nvme_device("a", drive)]})
    data = random.Random(7).randbytes(4096)
    with Disk(d.path("a")) as disk:
        disk.write(0, data)
        job = fio_in_background(d.path("a"), size="256k", offset="1m")
        wait_until(lambda: d.device("a")["active"] >= 8, what="commands at the drive")
        drive.reset.write_text("1", encoding="ascii")
        assert job.wait(60) == 0
        assert disk.read(0, 4096) == data
    told = d.device("a")
    assert "error -4" in told["facts"]["statuses"], told["facts"]
    assert int(told["facts"]["waited_for_drive"]) >= 1
    assert all(op["errors"] == 0 for op in told["ops"].values())


def test_the_device_follows_the_namespace(daemon, drives, stand):
    image = stand.file(32 * MIB)
    drive = drives.over(image)
    d = daemon({"devices": [nvme_device("a", drive)]})
    node = Path("/sys/block", Path(d.path("a")).name, "size")

    def resize(size_bytes):
        os.truncate(image, size_bytes)
        (drives.nvmet.namespace() / "revalidate_size").write_text("1", encoding="ascii")

    resize(64 * MIB)
    if os.environ["UBLKD_KERNEL"] == "6.12":
        wait_until(lambda: "cannot resize" in d.log_text(), what="the log says it")
        assert int(node.read_text()) * 512 == 32 * MIB
        return
    wait_until(lambda: int(node.read_text()) * 512 == 64 * MIB, what="the new size")
    assert d.device("a")["size_bytes"] == 64 * MIB
    with Disk(d.path("a")) as disk:
        disk.write(63 * MIB, b"\x63" * 4096)
        assert disk.read(63 * MIB, 4096) == b"\x63" * 4096
    resize(16 * MIB)
    wait_until(lambda: int(node.read_text()) * 512 == 16 * MIB, what="the smaller size")
    fio_verify(d.path("a"), size="1m", offset="15m")


@pytest.mark.kernel_log(ANY_ERROR)
def test_a_namespace_that_goes(daemon, drives, stand):
    """Requests fail at once, also those that wait for a reset to end; the device can be deleted."""
    drive = drives.over(stand.null_blk(32 * MIB))
    d = daemon({"devices": [nvme_device("a", drive)]})
    fio_verify(d.path("a"))
    (drives.nvmet.namespace() / "enable").write_text("0", encoding="ascii")
    wait_until(lambda: not Path(drive.generic).exists(), what="the node to go")
    wait_until(lambda: facts(d).get("namespace") == "gone", what="the daemon to see it")
    began_s = time.monotonic()
    with Disk(d.path("a")) as disk, pytest.raises(OSError):
        disk.read(0, 4096)
    assert time.monotonic() - began_s < 5
    assert d.log_text().count("is gone") == 1
    d.remove("a")


def format_anew(drive, number):
    """NVME_IOCTL_ADMIN_CMD with Format NVM: the format of this number, of those that the drive offers."""
    command = struct.pack("<B3xI32x8I", 0x80, 1, number, 0, 0, 0, 0, 0, 60_000, 0)
    with open(drive.generic, "rb") as node:
        assert fcntl.ioctl(node, 0xc0484e41, bytearray(command)) == 0


@pytest.mark.kernel_log(ANY_ERROR)
def test_a_namespace_that_is_formatted_anew(daemon, drives):
    """Commands made for the old blocks would move more than their data: none is sent."""
    drive = drives.make("fault")
    d = daemon({"devices": [nvme_device("a", drive)]})
    try:
        format_anew(drive, 4)
        assert drive.queue("logical_block_size") == "4096"
        wait_until(lambda: "another format" in d.log_text(), what="the daemon to see it")
        with Disk(d.path("a")) as disk, pytest.raises(OSError):
            disk.read(0, 512)
        d.remove("a")
        d.add(nvme_device("b", drive))
        assert d.device("b")["logical_block_bytes"] == 4096
        fio_verify(d.path("b"), size="4m")
        d.remove("b")
    finally:
        format_anew(drive, 0)


@pytest.mark.kernel_log(ANY_ERROR)
def test_a_drive_that_is_pulled_under_load(daemon, drives):
    drive = drives.make("fault")
    d = daemon({"devices": [nvme_device("a", drive)]})
    with Monitor() as monitor:
        job = fio_in_background(d.path("a"), size="32m", time_based=True, runtime=60)
        wait_until(lambda: d.device("a")["ops"]["read"]["count"] > 100, what="load")
        monitor.run("device_del", id="nvf")
        try:
            assert job.wait(30) != 0, "fio ends with an error"
            d.remove("a")
        finally:
            back = {"driver": "nvme", "id": "nvf", "serial": "ublkd-fault", "drive": "tb", "mdts": 3, "addr": "0x15"}
            wait_until(lambda: "return" in monitor.ask("device_add", **back), 30, 0.2,
                       what="qemu to be rid of the old drive, and to have it again")
    again = wait_until(lambda: of_guest("fault"), 30, what="the drive to be back")
    d.add(nvme_device("a", again))
    fio_verify(d.path("a"))
