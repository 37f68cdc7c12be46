"""Life cycle: add, use, delete, stop, in every order, with others looking on."""

import os
import random
import signal
import struct
import subprocess
import threading
import time
import zlib
from pathlib import Path

import pytest

from load import Guard, fio, words_of
from machine import nodes, processes, run, wait_until
from ublkd import ApiError, file_device, null_device

DELETE_MAX_S = 5
SHARED = {"tag_sets": {"s": {"depth": 64}}, "devices": []}
SLOW = {"name": "slow", "target": {"type": "delay", "read": "60s", "target": {"type": "null", "size": "1MiB"}}}
SLOW_END_MAX_S = 15  # requests in flight get 5 s to end before they are aborted


def write_block(path):
    fd = os.open(path, os.O_WRONLY)
    try:
        assert os.pwrite(fd, bytes(4096), 0) == 4096
    finally:
        os.close(fd)


def timed(limit_s, call, *args, **more):
    begin_s = time.monotonic()
    result = call(*args, **more)
    took_s = time.monotonic() - begin_s
    assert took_s <= limit_s, f"took {took_s:.1f} s, at most {limit_s} s"
    return result


def quietly(call, *args, **more):
    """For a thread whose request may be refused or cut off."""
    try:
        call(*args, **more)
    except (ApiError, AssertionError, OSError):
        pass


def test_A01_add_write_delete(daemon, guarded, count):
    d = daemon(SHARED)
    with guarded(d, "s"):
        before = d.open_files().count("/dev/ublkc0")
        for _ in range(count("A01 rounds", short=10, full=100)):
            write_block(d.add(null_device("x", tag_set="s"))["path"])
            timed(DELETE_MAX_S, d.remove, "x")
        assert nodes() == ["ublkb0", "ublkc0"]
        assert not [name for name in d.open_files() if "ublkc" in name and name != "/dev/ublkc0"]
        assert d.open_files().count("/dev/ublkc0") == before
        maps = Path(f"/proc/{d.pid}/maps").read_text()
        assert "ublkc1" not in maps and "(deleted)" not in maps


@pytest.mark.kernel_log("dev ublkb0")
def test_guard_notices(daemon, tmp_path):
    """The neighbour that must see nothing would see something: a failed write, and writes that are held."""
    image = file_device("", tmp_path / "i", size="8MiB", create="sparse")["target"]
    d = daemon()
    bad = d.add({"name": "bad", "target": {"type": "fault", "ops": ["write"], "every": 40, "target": image}})
    with pytest.raises(AssertionError, match="guard"):
        with Guard(bad["path"]) as guard:
            guard.process.wait(10)
    d.remove("bad")
    slow = d.add({"name": "slow", "target": {"type": "delay", "write": "100ms", "target": image}})
    with pytest.raises(AssertionError, match="stalled"):
        with Guard(slow["path"], stall_max_s=0.05):
            pass


def test_A01_own_tag_set_goes_with_its_device(daemon, guarded):
    d = daemon(SHARED)
    with guarded(d, "s"):
        threads, files = len(d.threads()), len(d.open_files())
        for _ in range(3):
            d.add(null_device("x", queues=2))
            d.remove("x")
        assert len(d.threads()) == threads
        wait_until(lambda: len(d.open_files()) == files, what="the connection of the last call to be closed")


class Prober(threading.Thread):
    """Opens the node and reads its start, as fast as it can, as udev and blkid do."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path = path
        self.good = self.refused = 0
        self.wrong = []
        self.ended = threading.Event()

    def run(self):
        while not self.ended.is_set():
            try:
                fd = os.open(self.path, os.O_RDONLY)
            except OSError:
                self.refused += 1
                time.sleep(0.001)
                continue
            try:
                data = os.pread(fd, 4096, 0)
                if data == bytes(4096):
                    self.good += 1
                elif data == b"":  # a deleted disk has no bytes
                    self.refused += 1
                else:
                    self.wrong.append(data)
            except OSError:
                self.refused += 1
            finally:
                os.close(fd)


@pytest.mark.kernel_log(r"on dev ublkb1|dev ublkb1,")  # what the prober was reading
def test_A02_delete_while_a_prober_reads(daemon, guarded, count):
    d = daemon(SHARED)
    with guarded(d, "s"):
        prober = Prober("/dev/ublkb1")
        prober.start()
        try:
            for _ in range(count("A02 deletes", short=8, full=50)):
                assert d.add(null_device("x", tag_set="s"))["path"] == prober.path
                seen = prober.good
                wait_until(lambda: prober.good > seen, what="the prober reads")
                timed(DELETE_MAX_S, d.remove, "x", force=True)
        finally:
            prober.ended.set()
            prober.join(10)
    assert not prober.is_alive(), "the prober hangs"
    assert not prober.wrong


def test_A03_add_while_running(daemon, guarded):
    config = {"tag_sets": {"s": {}}, "devices": [null_device(name, tag_set="s") for name in "abc"]}
    d = daemon(config)
    with guarded(d, "s"):
        fourth = d.add(null_device("d", tag_set="s"))
        assert fourth["state"] == "live"
        for name in "abcd":
            with pytest.raises(ApiError, match="device of that name") as refusal:
                d.add(null_device(name, tag_set="s"))
            assert refusal.value.kind == "exists"
        assert list(d.devices()) == ["a", "b", "c", "guarded", "d"]
        fio(fourth["path"], rw="randread", size="64k")


def test_A05_delete_of_what_is_gone(daemon):
    d = daemon({"devices": [null_device("a")]})
    assert d.ctl("del", "a").stderr == ""
    for which in (("a",), ("-n", "777"), ("/dev/ublkb0",)):
        done = d.ctl("del", *which)
        assert len(done.stderr.splitlines()) == 1 and "nothing to delete" in done.stderr
    assert "<3>" not in d.log_text()


@pytest.mark.kernel_log(r"dev ublkb\d")  # the partition scan of a start that was given up
def test_A07_signal_at_any_instant_of_the_start(daemon, tmp_path, count):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    config = {"tag_sets": {"s": {"hw_queues": 2}},
              "devices": [null_device("a", tag_set="s"), null_device("b", queues=2),
                          file_device("c", tmp_path / "c", size="1MiB", create="sparse", tag_set="s")]}
    begin_s = time.monotonic()
    daemon(config).stop()
    whole_s = time.monotonic() - begin_s
    for _ in range(count("A07 rounds", short=6, full=100)):
        d = daemon(config, ready=False)
        number = rng.choice((signal.SIGINT, signal.SIGTERM))
        time.sleep(rng.uniform(0, whole_s))
        d.process.send_signal(number)
        # Before the program runs there is nobody to catch the signal.
        assert d.wait_exit(timeout_s=20) in (0, -number), d.log_text()
        assert not nodes() and not processes("ublkd")
    daemon(config).stop()


@pytest.mark.kernel_log("ublkb1")
def test_A08_delete_while_the_kernel_reads_the_partition_table(daemon, guarded):
    d = daemon(SHARED)
    with guarded(d, "s"):
        adding = threading.Thread(target=quietly, args=(d.add, SLOW))
        # 6.12 reads the partition table inside START_DEV, later kernels after it.
        waits = os.uname().release.startswith("6.12")
        adding.start()
        state = "starting" if waits else "live"
        wait_until(lambda: d.devices().get("slow", {}).get("state") == state, what=f"the slow device is {state}")
        timed(SLOW_END_MAX_S, d.remove, "slow", force=True)
        adding.join(5)
        assert not adding.is_alive()
        assert list(d.devices()) == ["guarded"]


@pytest.mark.kernel_log("ublkb")
def test_A08_sigterm_while_the_kernel_reads_the_partition_table(daemon):
    d = daemon({"devices": [null_device("a"), SLOW]}, ready=False)
    wait_until(lambda: d.socket.exists() and d.logged("device a: /dev/ublkb0 live"))
    wait_until(lambda: d.devices().get("slow", {}).get("state") in ("starting", "live"), what="the slow device starts")
    assert d.stop() <= SLOW_END_MAX_S
    assert not nodes()


@pytest.mark.kernel_log("ublkb")
def test_A08_sigterm_during_a_delete(daemon):
    d = daemon({"devices": [null_device("a")]})
    adding = threading.Thread(target=quietly, args=(d.add, SLOW))
    adding.start()
    wait_until(lambda: d.devices().get("slow", {}).get("state") in ("starting", "live"), what="the slow device starts")
    deleting = threading.Thread(target=quietly, args=(d.remove, "slow"), kwargs={"force": True})
    deleting.start()
    wait_until(lambda: d.devices().get("slow", {}).get("state") != "live", what="the delete begins")
    assert d.stop() <= SLOW_END_MAX_S
    assert not nodes()
    adding.join(5)
    deleting.join(5)


def gpt_image(sectors, first, last):
    """A GPT disk with one partition, as bytes of its start; the kernel does not need the copy at its end."""
    linux_data = bytes.fromhex("af3dc60f838472478e793d69d8477de4")
    entry = struct.pack("<16s16sQQQ72s", linux_data, b"u" * 16, first, last, 0, "data".encode("utf-16-le"))
    entries = entry.ljust(128 * 128, b"\0")

    def header(checksum):
        return struct.pack("<8sIIIIQQQQ16sQIII", b"EFI PART", 0x10000, 92, checksum, 0, 1, sectors - 1, 34,
                           sectors - 34, b"d" * 16, 2, 128, 128, zlib.crc32(entries))
    protective = struct.pack("<BBBBBBBBII", 0, 0, 2, 0, 0xee, 255, 255, 255, 1, sectors - 1)
    mbr = bytes(446) + protective + bytes(48) + b"\x55\xaa"
    return mbr + header(zlib.crc32(header(0))).ljust(512, b"\0") + entries


@pytest.mark.kernel_log("GPT")
def test_A10_partitions_appear(daemon, tmp_path):
    image = tmp_path / "disk.img"
    sectors = 64 << 11
    image.write_bytes(gpt_image(sectors, 2048, sectors - 2049))
    os.truncate(image, sectors * 512)
    d = daemon()
    path = d.ctl("add", "-t", "file", "-f", image).stdout.strip()
    assert path == "/dev/ublkb0"
    wait_until(Path(f"{path}p1").is_block_device, timeout_s=2, what="the partition's node")
    assert Path("/sys/block/ublkb0/ublkb0p1/start").read_text().strip() == "2048"


def test_busy_by_an_open_file(daemon, guarded):
    d = daemon({"tag_sets": {"s": {}}, "devices": [null_device("a", tag_set="s")]})
    with guarded(d, "s"):
        with open(d.path("a"), "rb") as opened:
            done = d.ctl("del", "a", check=False)
            assert done.returncode == 1
            assert f"pid {os.getpid()} (" in done.stderr and "--force" in done.stderr
            assert d.device("a")["state"] == "live"
            os.pread(opened.fileno(), 4096, 0)
            timed(DELETE_MAX_S, d.ctl, "del", "--force", "a")
            assert list(d.devices()) == ["guarded"]
            assert "number 0 stays taken until it is closed: pid" in d.log_text()
            assert nodes() == ["ublkb1", "ublkc1"]
        assert d.add(null_device("a", id=0, tag_set="s"))["path"] == "/dev/ublkb0"


def test_sigterm_while_the_node_is_open(daemon):
    d = daemon({"devices": [null_device("a"), null_device("b")]})
    with open(d.path("a"), "rb"):
        assert d.stop() <= DELETE_MAX_S
        assert not nodes()


def test_sigterm_while_the_device_mapper_holds_the_node(daemon):
    """A holder that no process shows, and that is seen before the stop only."""
    d = daemon({"devices": [null_device("a")]})
    run("dmsetup", "create", "over-a", "--noudevsync", "--noudevrules", "--table", f"0 2048 linear {d.path('a')} 0")
    try:
        with pytest.raises(ApiError, match="in use: held by dm-"):
            d.remove("a")
        assert d.stop() <= DELETE_MAX_S
        assert "stays taken" in d.log_text()
    finally:
        run("dmsetup", "remove", "--noudevsync", "--noudevrules", "--retry", "over-a")
    wait_until(lambda: not nodes(), what="the number to be free")


@pytest.mark.kernel_log("dev ublkb1")
def test_busy_by_fio_deleted_by_force(daemon, guarded):
    d = daemon(SHARED)
    with guarded(d, "s"):
        path = d.add(null_device("a", tag_set="s"))["path"]
        words = words_of(path, rw="randwrite", iodepth=32, time_based=True, runtime=60, rate_iops=500)
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as writer:
            wait_until(lambda: d.device("a")["ops"]["write"]["count"] > 32, what="fio writes")
            with pytest.raises(ApiError, match=r"in use: .*\(fio\)"):
                d.remove("a")
            timed(DELETE_MAX_S, d.remove, "a", force=True)
            assert writer.wait(20) != 0
        assert Path(path).name not in nodes()


def test_busy_by_a_mount(daemon, guarded, tmp_path):
    d = daemon(SHARED)
    path = d.add(file_device("m", tmp_path / "m.img", size="16MiB", create="sparse", tag_set="s"))["path"]
    run("mkfs.ext4", "-q", "-F", path)
    where = tmp_path / "mnt"
    where.mkdir()
    run("mount", path, where)
    try:
        with guarded(d, "s"):
            with pytest.raises(ApiError, match=f"mounted on {where}") as refusal:
                d.remove("m")
            assert refusal.value.kind == "busy"
            (where / "file").write_text("kept")
            run("sync", "-f", where)
    finally:
        run("umount", where)
    d.remove("m")
    assert list(d.devices()) == ["guarded"]


def test_two_deletes_at_once(daemon):
    d = daemon({"devices": [null_device(name) for name in "abcd"]})
    threads = [threading.Thread(target=d.ctl, args=("del", "-a"), kwargs={"check": False}) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(lambda: not d.devices(), what="no devices")
    assert not nodes()
