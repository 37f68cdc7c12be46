"""ublkctl as a user types it."""

import json
import os
from pathlib import Path

from load import fio_verify
from machine import nodes, run
from ublkd import UBLKCTL, UBLKD, file_device, null_device


def test_add_null_as_in_ublksrv(daemon):
    d = daemon()
    done = d.ctl("add", "-t", "null", "-n", "0", "-q", "2", "-d", "128")
    assert done.stdout == "/dev/ublkb0\n"
    assert Path("/dev/ublkb0").is_block_device()  # usable when add returns
    device = d.device("0")
    assert (device["queues"], device["depth"], device["state"]) == (2, 128, "live")
    assert len(os.listdir("/sys/block/ublkb0/mq")) == 2
    assert d.ctl("del", "-n", "0").stdout == ""
    assert not nodes() and not d.devices()


def test_add_file_as_in_rublk(daemon, tmp_path, guarded):
    d = daemon({"tag_sets": {"s": {}}, "devices": []})
    (tmp_path / "disk.img").touch()
    os.truncate(tmp_path / "disk.img", 4 << 20)
    with guarded(d, "s"):
        done = run(UBLKCTL, "--socket", d.socket, "add", "-t", "loop", "-f", "disk.img", "--name", "disk", cwd=tmp_path)
        path = done.stdout.strip()
        assert d.device("disk")["path"] == path
        fio_verify(path, size="128k")
        d.ctl("del", path)
    assert list(d.devices()) == ["guarded"]


def test_add_says_what_is_missing(daemon, tmp_path):
    d = daemon()
    done = d.ctl("add", "-t", "file", "-f", tmp_path / "missing", check=False)
    assert done.returncode == 1 and str(tmp_path / "missing") in done.stderr and done.stdout == ""
    done = d.ctl("add", "-t", "file", check=False)
    assert done.returncode == 2 and "path" in done.stderr
    assert not d.devices()


def test_add_json(daemon):
    d = daemon()
    device = d.ctl_json("add", "-t", "null", "-s", "1MiB", "--name", "x")
    assert device["path"] == "/dev/ublkb0" and device["name"] == "x" and device["size_bytes"] == 1 << 20


def test_delete_all_spares_other_servers(daemon):
    first = daemon({"devices": [null_device("a")]})
    second = daemon({"devices": [null_device(name) for name in "bcd"]})
    second.ctl("del", "-a")
    assert not second.devices()
    assert nodes() == ["ublkb0", "ublkc0"]
    assert first.device("a")["state"] == "live"


def test_list(daemon, tmp_path):
    d = daemon({"tag_sets": {"s": {"hw_queues": 2, "depth": 32}}, "devices": [
        null_device("one", tag_set="s"), null_device("own"),
        file_device("image", tmp_path / "i", size="1MiB", create="sparse", tag_set="s")]})
    rows = d.ctl("list").stdout.splitlines()
    assert len(rows) == 4 and rows[0].split()[:4] == ["ID", "NAME", "PATH", "STATE"]
    assert rows[1].split()[:4] == ["0", "one", "/dev/ublkb0", "live"]
    [row] = [row for row in d.ctl("list", "-n", "2").stdout.splitlines() if "/dev/ublkb" in row]
    assert "image" in row
    text = d.ctl("list", "-v").stdout
    for word in (f"pid {d.pid}", "tag set s: 2 hardware queue(s) x 32 tags", "cq_overflows", "scheduler",
                 str(tmp_path / "i")):
        assert word in text
    answer = d.ctl_json("list")
    assert answer["daemon"]["pid"] == d.pid and answer["daemon"]["run_dir"] == str(d.run_dir)
    assert answer["devices"] == d.call("list")["devices"]
    [shared] = [tag_set for tag_set in answer["tag_sets"] if tag_set["name"] == "s"]
    assert shared["devices"] == ["one", "image"] and len(shared["queues"]) == 2
    assert {queue["tid"] for queue in shared["queues"]} <= {int(tid) for tid in os.listdir(f"/proc/{d.pid}/task")}
    done = d.ctl("list", "nobody", check=False)
    assert done.returncode == 1 and "nobody" in done.stderr


def test_doctor(daemon):
    d = daemon()
    done = d.ctl("doctor", check=False)
    assert done.returncode == 0, done.stdout
    assert "ok    daemon: answers" in done.stdout and "FAIL" not in done.stdout
    answer = d.ctl_json("doctor")
    assert answer["ok"] and {check["verdict"] for check in answer["checks"]} <= {"ok", "warn"}
    d.stop()
    done = d.ctl("doctor")
    assert "none is running" in done.stdout


def test_default_places(daemon):
    """Without --run-dir and --socket the two find each other in /run/ublkd."""
    d = daemon({"devices": [null_device("a")]}, run_dir="/run/ublkd")
    assert "/dev/ublkb0" in run(UBLKCTL, "list").stdout
    d.stop()
    done = run(UBLKCTL, "list", check=False)
    assert done.returncode == 3 and "no ublkd answers on /run/ublkd/ublkd.sock" in done.stderr


def test_no_daemon_in_json(tmp_path):
    done = run(UBLKCTL, "--socket", tmp_path / "s", "-o", "json", "list", check=False)
    assert done.returncode == 3
    assert str(tmp_path / "s") in json.loads(done.stdout)["error"]["message"]


def test_help_and_version():
    assert run(UBLKCTL, "--version").stdout.startswith("ublkctl ")
    assert run(UBLKD, "--version").stdout.startswith("ublkd ")
    text = run(UBLKCTL, "help").stdout
    for word in ("add", "del", "list", "features", "doctor", "check-config", "null", "file"):
        assert word in text
    assert "size" in run(UBLKCTL, "help", "-t", "null").stdout
    assert run(UBLKCTL, "frobnicate", check=False).returncode == 2


def test_delete_by_number_name_and_path(daemon):
    """However it is named, nothing of it stays: the one place of the tag set is free again."""
    d = daemon({"tag_sets": {"s": {"devices_max": 1}}, "devices": []})
    for words in (("-n", "0"), ("0",), ("/dev/ublkb0",), ("ublkb0",), ("x",)):
        d.add(null_device("x", tag_set="s"))
        done = d.ctl("del", *words)
        assert done.stderr == "" and not d.devices(), words
