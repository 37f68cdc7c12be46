"""Several servers on one machine, and a server that cannot start."""

import os
import signal
import subprocess

import pytest

from machine import nodes, processes, reload_driver, wait_until
from ublkd import UBLKD, ApiError, file_device, null_device

REFUSAL_MAX_S = 5


def refused(daemon, *args, config=None, **options):
    """The log of a daemon that must refuse to start at once."""
    d = daemon(config, ready=False, args=args, **options)
    status = d.wait_exit(REFUSAL_MAX_S)
    assert status > 0, f"status {status}\n{d.log_text()}"
    return d.log_text()


def test_A04_number_taken_by_another_server(daemon, guarded):
    first = daemon()
    with guarded(first) as guard:
        assert guard.path == "/dev/ublkb0"
        second = daemon()
        with pytest.raises(ApiError, match=f"number 0 is in use by pid {first.pid}"):
            second.add(null_device("a", id=0))
        assert not second.devices()
        assert second.add(null_device("a"))["path"] == "/dev/ublkb1"
        second.ctl("del", "-a")
        assert list(first.devices()) == ["guarded"]
        assert second.ctl("del", "-n", "0").stderr  # not ours: nothing to delete
        second.stop()
    assert nodes() == ["ublkb0", "ublkc0"]


def test_A04_fixed_number_of_the_config_taken(daemon, guarded):
    first = daemon()
    with guarded(first):
        log = refused(daemon, config={"devices": [null_device("a", id=0)]})
        assert f"in use by pid {first.pid}" in log


def test_failed_device_does_not_stop_the_others(daemon, tmp_path):
    missing = tmp_path / "missing"
    d = daemon({"devices": [file_device("bad", missing), null_device("good")]})
    assert {name: device["state"] for name, device in d.devices().items()} == {"bad": "failed", "good": "live"}
    assert str(missing) in d.device("bad")["error"]
    assert "ready: 1 of 2" in d.log_text()


def test_A06_control_node_absent(daemon):
    assert "/nonexistent" in refused(daemon, "--control-node", "/nonexistent")


@pytest.mark.parametrize("node", ["/dev/null", "/dev"])
def test_A06_control_node_is_something_else(daemon, node):
    assert node in refused(daemon, "--control-node", node)


def test_A09_second_daemon_with_the_same_config(daemon, guarded):
    first = daemon({"devices": [null_device("a", id=5)]})
    with guarded(first):
        log = refused(daemon, config=first.config.read_text(), run_dir=first.run_dir)
        assert f"pid {first.pid}" in log
        assert list(first.devices()) == ["a", "guarded"]


def test_A11_the_shell_that_started_it_is_killed(daemon, tmp_path):
    """A daemon in a session of its own outlives its parent; it is the daemon that is asked to end."""
    run_dir = tmp_path / "run"
    shell = subprocess.Popen(["sh", "-c", f"setsid {UBLKD} --run-dir {run_dir} > {tmp_path}/log 2>&1 & exec sleep 60"],
                             start_new_session=True)
    wait_until(lambda: (run_dir / "ublkd.sock").exists(), what="the daemon runs")
    [pid] = processes("ublkd")
    os.killpg(shell.pid, signal.SIGKILL)
    shell.wait(10)
    assert processes("ublkd") == [pid]
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not processes("ublkd"), what="the daemon ends")


def test_start_after_a_kill(daemon):
    """Nothing of a killed server is in the way of the next; what the kernel keeps of it goes with the driver."""
    config = {"devices": [null_device("a")]}
    first = daemon(config)
    first.kill()
    second = daemon(config, run_dir=first.run_dir)
    assert second.device("a")["state"] == "live"
    second.stop()
    reload_driver()


def test_A62_run_dir_is_in_the_way(daemon, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    assert str(file) in refused(daemon, run_dir=file)


def test_A62_run_dir_others_may_write(daemon, tmp_path):
    open_dir = tmp_path / "open"
    open_dir.mkdir()
    open_dir.chmod(0o777)
    assert f"{open_dir}" in refused(daemon, run_dir=open_dir)


def test_A62_no_cap_sys_admin(daemon):
    d = daemon({"devices": [null_device("a")]}, ready=False, wrap=("setpriv", "--bounding-set", "-sys_admin"))
    assert d.wait_exit(REFUSAL_MAX_S) == 1
    assert "CAP_SYS_ADMIN" in d.log_text()
