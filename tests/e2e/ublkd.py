"""ublkd and ublkctl for tests.

A test asks the fixture `daemon` (see conftest.py) for a running server:

    d = daemon({"devices": [null_device("a")]})   # waits until ready; {} or nothing: a daemon without devices
    path = d.path("a")                            # /dev/ublkbN
    d.call("list")                                # the local API, no process started: fast
    d.ctl("del", "a")                             # the real ublkctl; .returncode, .stdout, .stderr
    d.stop()                                      # SIGTERM, checks status 0; done at the end of the test otherwise

Each daemon has its own folder with config.json, run/ and ublkd.log.
"""

import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from machine import ROOT, run, wait_until

BUILD = Path(os.environ.get("UBLKD_BUILD") or ROOT / "build/release")
UBLKD = BUILD / "ublkd"
UBLKCTL = BUILD / "ublkctl"
READY_TIMEOUT_S = 30
STOP_TIMEOUT_S = 30
CALL_TIMEOUT_S = 60


def null_device(name, size="64MiB", **more):
    return {"name": name, "target": {"type": "null", "size": size}, **more}


def file_device(name, path, size=None, create=None, io=None, **more):
    target = {"type": "file", "path": str(path)}
    target.update({key: value for key, value in (("size", size), ("create", create), ("io", io)) if value})
    return {"name": name, "target": target, **more}


class ApiError(Exception):
    """An answer of the daemon that is a refusal; .kind and .message."""

    def __init__(self, error):
        super().__init__(f"{error['kind']}: {error['message']}")
        self.kind, self.message = error["kind"], error["message"]


class Daemon:
    """One ublkd in the foreground, in a session of its own."""

    def __init__(self, folder, config=None, args=(), run_dir=None, wrap=()):
        """config: an object, the text of a file, or None for none. wrap: words before the program."""
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.run_dir = Path(run_dir) if run_dir else self.folder / "run"
        self.socket = self.run_dir / "ublkd.sock"
        self.log = self.folder / "ublkd.log"
        line = [*wrap, UBLKD, "--run-dir", self.run_dir, *args]
        if config is not None:
            self.config = self.folder / "config.json"
            self.config.write_text(config if isinstance(config, str) else json.dumps(config), encoding="utf-8")
            line += ["--config", self.config]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([str(word) for word in line], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, start_new_session=True)
        self.pid = self.process.pid
        self.stop_checked = False

    def log_text(self):
        return self.log.read_text(encoding="utf-8", errors="replace")

    def running(self):
        return self.process.poll() is None

    def logged(self, text):
        """Whether the log has the text; fails the test when the daemon ended without it."""
        running = self.running()
        if text in self.log_text():
            return True
        assert running, f"ublkd ended with status {self.process.returncode}:\n{self.log_text()}"
        return False

    def wait_ready(self, timeout_s=READY_TIMEOUT_S):
        wait_until(lambda: self.logged("ready: "), timeout_s, what="ublkd ready")
        return self

    def wait_exit(self, timeout_s=STOP_TIMEOUT_S):
        """The exit status of a daemon that is expected to end."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"ublkd is there after {timeout_s} s:\n{self.log_text()}") from None

    def call(self, verb, timeout_s=CALL_TIMEOUT_S, **args):
        """One request of the local API; its result, or ApiError."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
            s.settimeout(timeout_s)
            s.connect(str(self.socket))
            s.sendall(json.dumps({"verb": verb, "args": args}).encode() + b"\n")
            text = b""
            while not text.endswith(b"\n"):
                part = s.recv(1 << 20)
                assert part, "the daemon closed the connection without an answer"
                text += part
        answer = json.loads(text)
        if not answer["ok"]:
            raise ApiError(answer["error"])
        return answer["result"]

    def ctl(self, *words, check=True, timeout_s=CALL_TIMEOUT_S):
        """ublkctl at this daemon."""
        return run(UBLKCTL, "--socket", self.socket, *words, check=check, timeout_s=timeout_s)

    def ctl_json(self, *words):
        return json.loads(self.ctl("-o", "json", *words).stdout)

    def add(self, device):
        """Adds a device by the API; returns its object of `list`."""
        return self.call("add", device=device)

    def remove(self, *names, force=False):
        return self.call("del", devices=list(names), force=force)

    def devices(self):
        return {device["name"]: device for device in self.call("list")["devices"]}

    def device(self, name):
        return self.call("list", device=name)["devices"][0]

    def path(self, name):
        return self.device(name)["path"]

    def threads(self):
        """Names of the daemon's threads."""
        return [(task / "comm").read_text().strip() for task in Path(f"/proc/{self.pid}/task").iterdir()]

    def open_files(self):
        """What the descriptors of the daemon point to."""
        found = []
        for link in Path(f"/proc/{self.pid}/fd").iterdir():
            try:
                found.append(os.readlink(link))
            except OSError:
                continue
        return found

    def stop(self, number=signal.SIGTERM, timeout_s=STOP_TIMEOUT_S):
        """Ends the daemon as a user does; returns the seconds it took. It must end with status 0."""
        self.stop_checked = True
        begin_s = time.monotonic()
        self.process.send_signal(number)
        status = self.wait_exit(timeout_s)
        assert status == 0, f"ublkd ended with status {status}:\n{self.log_text()}"
        return time.monotonic() - begin_s

    def kill(self):
        if self.running():
            self.process.kill()
            self.process.wait(10)
