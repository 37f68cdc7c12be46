#!/usr/bin/python3
"""The demo itself, on a machine whose kernel has ublk: starts ublkd with config/demo.json in a temporary folder, puts
fio on its devices, asks ublkctl meanwhile, prints a table, and leaves nothing behind.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

import process
from paths import BUILD, ROOT
from progress import Failure, main_guard, say

CONFIG = ROOT / "config/demo.json"
CONFIG_FOLDER = "/var/tmp/ublkd-demo"  # in the config; becomes the run's own folder
READY_TIMEOUT_S = 30
STOP_TIMEOUT_S = 20
FIO_TIMEOUT_S = 60
SAMPLE_S = 0.3


@dataclass(frozen=True)
class Load:
    """One fio run on one device."""
    device: str
    what: str
    depth: int
    options: tuple


@dataclass(frozen=True)
class Measured:
    """A row of the table; times in microseconds."""
    load: Load
    iops: float
    p50_us: float
    p99_us: float
    active: int
    peak: int
    share: float


class Server:
    """ublkd, from start to a checked end."""

    def __init__(self, folder):
        self.run_dir = folder / "run"
        self.log = folder / "ublkd.log"
        self.config = folder / "demo.json"
        text = CONFIG.read_text(encoding="utf-8").replace(CONFIG_FOLDER, str(folder))
        self.config.write_text(text, encoding="utf-8")
        self.names = [device["name"] for device in json.loads(text)["devices"]]
        self.process = None

    def __enter__(self):
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [BUILD / "release/ublkd", "--config", self.config, "--run-dir", self.run_dir],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            process.end_group(self.process)

    def failure(self, what):
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return Failure(f"{what}; ublkd said:\n{text[-4000:]}")

    def list(self):
        """The devices by name, None while the daemon does not answer."""
        line = [BUILD / "release/ublkctl", "--socket", self.run_dir / "ublkd.sock", "-o", "json", "list"]
        done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=READY_TIMEOUT_S,
                              check=False)
        if done.returncode:
            return None
        return {device["name"]: device for device in json.loads(done.stdout)["devices"]}

    def all_live(self):
        if self.process.poll() is not None:
            raise self.failure(f"ublkd ended with status {self.process.returncode}")
        devices = self.list() or {}
        live = all(devices.get(name, {}).get("state") == "live" for name in self.names)
        return devices if live else None

    def wait_ready(self):
        devices = process.wait_until(self.all_live, READY_TIMEOUT_S, poll_s=0.2)
        if not devices:
            raise self.failure(f"devices not live after {READY_TIMEOUT_S} s")
        return devices

    def stop(self, paths):
        """SIGTERM must end it, with status 0 and without its devices."""
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise self.failure(f"ublkd is still there {STOP_TIMEOUT_S} s after SIGTERM") from None
        if status != 0:
            raise self.failure(f"ublkd ended with status {status} after SIGTERM")
        left = [path for path in paths if Path(path).exists()]
        if left:
            raise self.failure(f"ublkd left {', '.join(left)} behind")


class Sampler(threading.Thread):
    """Asks for the devices while fio runs; keeps the most active requests, the peak and the share of each."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server = server
        self.active = {}
        self.peak = {}
        self.share = {}
        self.ended = threading.Event()

    def run(self):
        while not self.ended.wait(SAMPLE_S):
            for name, device in (self.server.list() or {}).items():
                self.active[name] = max(self.active.get(name, 0), device["active"])
                self.peak[name] = device["peak"]
                self.share[name] = device["share"] or self.share.get(name, 0)

    def finish(self):
        self.ended.set()
        self.join()


def fio_line(load, path):
    return ["fio", "--name=demo", f"--filename={path}", "--ioengine=io_uring", "--direct=1", "--bs=4k",
            f"--iodepth={load.depth}", "--output-format=json", *load.options]


def fio_result(load, done, sampler):
    if done.returncode:
        raise Failure(f"fio on {load.device} ({load.what}): status {done.returncode}\n{done.stdout}\n{done.stderr}")
    job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
    side = job["write" if "write" in load.what else "read"]
    percentile = side["clat_ns"].get("percentile", {})
    return Measured(load, side["iops"], percentile.get("50.000000", 0) / 1000, percentile.get("99.000000", 0) / 1000,
                    sampler.active.get(load.device, 0), sampler.peak.get(load.device, 0),
                    sampler.share.get(load.device, 0))


def run_loads(server, paths, loads):
    """Runs fio on several devices at once."""
    say(f"fio: {' + '.join(f'{load.device} {load.what} depth {load.depth}' for load in loads)} ...")
    sampler = Sampler(server)
    sampler.start()
    running = [subprocess.Popen(fio_line(load, paths[load.device]), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True) for load in loads]
    try:
        output = [child.communicate(timeout=FIO_TIMEOUT_S) for child in running]
    except subprocess.TimeoutExpired:
        raise Failure(f"fio did not end in {FIO_TIMEOUT_S} s") from None
    finally:
        for child in running:
            if child.poll() is None:
                child.kill()
                child.wait()
        sampler.finish()
    return [fio_result(load, subprocess.CompletedProcess(child.args, child.returncode, *texts), sampler)
            for load, child, texts in zip(loads, running, output)]


def rounds(names, seconds):
    """What runs, one round after another; the loads of a round run at once."""
    def read(name, depth):
        return Load(name, "randread", depth, ("--rw=randread", "--time_based", f"--runtime={seconds}", "--norandommap"))

    yield from ([read(name, 128)] for name in names)
    yield [read(name, 128) for name in names]
    yield from ([read(name, 1)] for name in names)
    yield [Load(names[-1], "randwrite+verify", 32,
                ("--rw=randwrite", "--verify=crc32c", "--verify_fatal=1", f"--size={8 * seconds}m"))]


def print_table(devices, table):
    head = ("device", "target", "queues", "load", "depth", "IOPS", "p50 us", "p99 us", "active", "peak",
            "share")
    lines = []
    for together, row in table:
        device = devices[row.load.device]
        lines.append((row.load.device, device["target"], str(device["queues"]),
                      row.load.what + (" (both)" if together else ""), str(row.load.depth), f"{row.iops:,.0f}",
                      f"{row.p50_us:,.0f}", f"{row.p99_us:,.0f}", str(row.active), str(row.peak), f"{row.share:g}"))
    widths = [max(len(line[column]) for line in (head, *lines)) for column in range(len(head))]
    words = {"device", "target", "load"}
    for line in (head, ["-" * width for width in widths], *lines):
        print("  ".join(cell.ljust(width) if name in words else cell.rjust(width)
                        for name, cell, width in zip(head, line, widths)).rstrip())


def show(folder, seconds):
    with Server(folder) as server:
        say("start ublkd ...")
        devices = server.wait_ready()
        paths = {name: devices[name]["path"] for name in server.names}
        say(f"live: {', '.join(f'{name} = {path}' for name, path in paths.items())}")
        table = []
        for loads in rounds(server.names, seconds):
            table += [(len(loads) > 1, row) for row in run_loads(server, paths, loads)]
        server.stop(paths.values())
    print()
    print_table(devices, table)
    print("\nactive: requests in the server, the most of a few looks (null answers at once); peak: the most ever")
    print("share: tags the device may use of the set it shares with the other")
    print("verify: every block written was read back and its crc32c checked; ublkd stopped and left no device behind")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="one second per measurement")
    parser.add_argument("--folder", default="/var/tmp", help="where the temporary folder goes")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="ublkd-demo-", dir=given.folder) as folder:
        show(Path(folder), 1 if given.short else 3)
    return 0


if __name__ == "__main__":
    main_guard(main)
