"""Rings and queue threads: how many, what they survive, what is said when they cannot be made."""

import mmap
import os
from pathlib import Path

import pytest

from load import fio
from ublkd import null_device

CONTROL_RINGS = 1


def rings(d):
    return d.open_files().count("anon_inode:[io_uring]")


def queue_threads(d):
    return [name for name in d.threads() if name.startswith("ublkd-")]


def read_direct(path):
    """The first 4 KiB of the device, not from the page cache."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, 4096) as page:
            page.write(b"x" * 4096)
            assert os.preadv(fd, [page], 0) == 4096
            return page[:]
    finally:
        os.close(fd)


@pytest.mark.limit(240)
def test_64_devices_on_two_hardware_queues(daemon):
    set_of_64 = {"hw_queues": 2, "depth": 128, "devices_max": 65, "slots_total_max": 2048}
    d = daemon({"tag_sets": {"s": set_of_64},
                "devices": [null_device(f"n{i}", tag_set="s", depth=16, max_io_size="64KiB") for i in range(64)]},
               ready=False).wait_ready(timeout_s=120)
    assert len(queue_threads(d)) == 2
    assert rings(d) == 2 + CONTROL_RINGS
    devices = d.devices()
    assert len(devices) == 64
    for device in devices.values():
        assert read_direct(device["path"]) == bytes(4096)
    some = ":".join(device["path"] for device in list(devices.values())[::4])
    fio(some, rw="randread", iodepth=64, size="1m", numjobs=2)
    [tag_set] = d.call("list")["tag_sets"]
    assert tag_set["free"] == 256 and tag_set["active"] == 0
    assert all(queue["turns"] > 0 and queue["cq_overflows"] == 0 for queue in tag_set["queues"])
    assert all(device["tags_taken"] == device["tags_put"] > 0 for device in d.devices().values())


def test_idle_neighbour_while_devices_come_and_go(daemon, count):
    """DEL_DEV must not wait for a device of the same ring that has nothing to do."""
    d = daemon({"tag_sets": {"s": {"hw_queues": 2}}, "devices": [null_device("idle", tag_set="s")]})
    idle_path = d.path("idle")
    for _ in range(count("idle neighbour rounds", short=10, full=50)):
        path = d.add(null_device("b", tag_set="s"))["path"]
        assert read_direct(path) == bytes(4096)
        d.call("del", timeout_s=5, devices=["b"])
    assert read_direct(idle_path) == bytes(4096)
    assert rings(d) == 2 + CONTROL_RINGS and len(queue_threads(d)) == 2


def test_A54_more_requests_than_tags(daemon, guarded):
    d = daemon({"tag_sets": {"s": {"hw_queues": 1, "depth": 4}},
                "devices": [null_device(name, tag_set="s", depth=64) for name in "ab"]})
    with guarded(d, "s"):
        fio(":".join(d.path(name) for name in "ab"), rw="randrw", iodepth=128, iodepth_batch=32, size="2m")
    [tag_set] = d.call("list")["tag_sets"]
    assert tag_set["free"] == 4
    assert [queue["cq_overflows"] for queue in tag_set["queues"]] == [0]
    assert all(0 < device["peak"] <= 4 for device in d.devices().values())


def test_A56_small_limit_of_open_files(daemon):
    d = daemon({"devices": [null_device(f"n{i}") for i in range(16)]}, wrap=("prlimit", "--nofile=32"))
    states = [device["state"] for device in d.devices().values()]
    assert "live" in states and "failed" in states
    errors = {device["error"] for device in d.devices().values() if device["state"] == "failed"}
    assert all("LimitNOFILE" in error or "ulimit -n" in error for error in errors), errors
    d.ctl("del", "-a")
    assert d.add(null_device("again"))["state"] == "live"


def test_A56_small_limit_of_locked_memory(daemon):
    """Copy mode locks no memory: it serves under any limit."""
    d = daemon({"devices": [null_device("a", queues=2)]},
               wrap=("prlimit", "--memlock=65536", "setpriv", "--bounding-set", "-ipc_lock"))
    assert "CapEff" in Path(f"/proc/{d.pid}/status").read_text()
    fio(d.path("a"), rw="randread", size="256k", iodepth=32)
