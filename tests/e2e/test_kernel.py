"""Kernels and what they allow: features, I/O scheduler, a driver that is not there, io_uring switched off."""

import json
import os
import re
from pathlib import Path

import pytest

from load import fio
from machine import DRIVER, run
from ublkd import UBLKCTL, null_device

SWITCH = Path("/proc/sys/kernel/io_uring_disabled")
REFUSAL_MAX_S = 5


def scheduler(name):
    return Path(f"/sys/block/{name}/queue/scheduler").read_text().strip()


def chosen(name):
    """The scheduler in force: the one in brackets, or the only one."""
    text = scheduler(name)
    found = re.search(r"\[(\S+)\]", text)
    return found.group(1) if found else text


def test_scheduler_is_none_unless_configured(daemon):
    d = daemon({"tag_sets": {"s": {}}, "devices": [
        null_device("default", tag_set="s"), null_device("two-queues", queues=2),
        null_device("deadline", tag_set="s", scheduler="mq-deadline"),
        null_device("kernel", tag_set="s", scheduler="kernel")]})
    devices = d.devices()
    found = {name: chosen(Path(device["path"]).name) for name, device in devices.items()}
    assert found["default"] == found["two-queues"] == "none"
    assert found["deadline"] == "mq-deadline"
    assert {name: device["scheduler"] for name, device in devices.items()} == found
    fio(":".join(device["path"] for device in devices.values()), rw="randrw", size="256k", iodepth=8)


def test_smoke_of_every_target(daemon, tmp_path):
    """The same set of devices serves on each kernel, and says what of the kernel it uses."""
    inner = {"type": "null", "size": "1MiB"}
    d = daemon({"devices": [
        null_device("null"),
        {"name": "file", "target": {"type": "file", "path": str(tmp_path / "f"), "create": "sparse", "size": "1MiB"}},
        {"name": "delay", "target": {"type": "delay", "time": "1ms", "target": inner}},
        {"name": "fault", "target": {"type": "fault", "ops": ["discard"], "target": inner}}]})
    for name, device in d.devices().items():
        assert device["state"] == "live" and device["flags_dropped"] == [], name
        assert "CMD_IOCTL_ENCODE" in device["flags"]
    fio(":".join(device["path"] for device in d.devices().values()), rw="randrw", size="256k", iodepth=8)


def test_features_with_and_without_daemon(daemon):
    direct = json.loads(run(UBLKCTL, "--socket", "/nonexistent/s", "-o", "json", "features").stdout)
    d = daemon()
    asked = d.ctl_json("features")
    assert asked["mask"] == direct["mask"] and asked["kernel"] == direct["kernel"] == os.uname().release
    there = {feature["name"] for feature in asked["features"] if feature["kernel"]}
    used = {feature["name"] for feature in asked["features"] if feature["used"]}
    assert "CMD_IOCTL_ENCODE" in used <= there
    assert ("AUTO_BUF_REG" in there) == (os.environ.get("UBLKD_KERNEL") != "6.12")
    assert "CMD_IOCTL_ENCODE" in d.ctl("features").stdout


@pytest.fixture
def no_io_uring():
    before = SWITCH.read_text()
    SWITCH.write_text("2")
    yield
    SWITCH.write_text(before)


def test_A57_io_uring_switched_off(daemon, no_io_uring):
    d = daemon({"devices": [null_device("a")]}, ready=False)
    assert d.wait_exit(REFUSAL_MAX_S) == 1
    assert "io_uring_disabled" in d.log_text()
    for verb in ("features", "doctor"):
        done = run(UBLKCTL, "--socket", d.socket, verb, check=False)
        assert done.returncode == 1 and "io_uring_disabled" in done.stdout + done.stderr, (verb, done)
    for words in (("list",), ("del", "-a")):  # they need no ring of their own
        assert run(UBLKCTL, "--socket", d.socket, *words, check=False).returncode == 3


def test_A57_switched_off_while_running(daemon, guarded):
    """What runs goes on, a device with queues of its own is refused, and its refusal leaves nothing."""
    d = daemon({"tag_sets": {"s": {}}, "devices": [null_device("a", tag_set="s")]})
    before = SWITCH.read_text()
    try:
        with guarded(d, "s"):
            SWITCH.write_text("2")
            done = d.ctl("add", "-t", "null", "-s", "1MiB", check=False)
            assert done.returncode == 1 and "io_uring" in done.stderr
            assert d.ctl_json("list")["devices"][0]["state"] == "live"
            d.ctl("del", "a")
    finally:
        SWITCH.write_text(before)


@pytest.fixture
def no_driver():
    run("modprobe", "-r", "ublk_drv")
    assert not DRIVER.exists()
    yield
    run("modprobe", "ublk_drv")


def test_A60_driver_not_loaded(daemon, no_driver):
    d = daemon({"devices": [null_device("a")]}, ready=False)
    assert d.wait_exit(REFUSAL_MAX_S) == 1
    assert "/dev/ublk-control" in d.log_text() and "modprobe ublk_drv" in d.log_text()
    done = run(UBLKCTL, "--socket", d.socket, "features", check=False)
    assert done.returncode == 1 and "modprobe ublk_drv" in done.stderr
    done = run(UBLKCTL, "--socket", d.socket, "doctor", check=False)
    assert done.returncode == 1
    assert re.search(r"FAIL +driver ublk_drv: installed but not loaded; to mend: modprobe ublk_drv", done.stdout)


def test_A60_node_is_missing(daemon):
    node = Path("/dev/ublk-control")
    aside = Path("/dev/ublk-control.aside")
    node.rename(aside)
    try:
        done = run(UBLKCTL, "--socket", "/nonexistent/s", "doctor", check=False)
        assert done.returncode == 1 and "there, but /dev/ublk-control is not" in done.stdout
        d = daemon(ready=False)
        assert d.wait_exit(REFUSAL_MAX_S) == 1
        assert "/dev/ublk-control" in d.log_text()
    finally:
        aside.rename(node)


def test_driver_limit_of_devices(daemon):
    """A79 in small: kernels before 6.15 refuse more than ublks_max, and the refusal names it."""
    limit = DRIVER / "parameters/ublks_max"
    before = limit.read_text()
    limit.write_text("1")
    try:
        d = daemon({"devices": [null_device("a"), null_device("b")]})
        states = {name: device["state"] for name, device in d.devices().items()}
        assert states["a"] == "live"
        if states["b"] == "failed":
            assert "ublks_max" in d.device("b")["error"]
        assert len(d.log_text().splitlines()) < 30
    finally:
        limit.write_text(before)
