"""Backings and servers inside the guest: each is started on a backing, has a block device, and goes away whole."""

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import nvmet
import process
from paths import BUILD
from progress import Failure

# In the guest's own time, which runs ahead while a guest under icount waits for its disk: the harness has the limit.
TIMEOUT_S = 1800
LIVE_POLL_S = 0.5  # to start ublkctl costs an emulated guest more than to wait
DEPTH = 128
FILE_BYTES = 64 << 20
NULL_BYTES = 250 << 30
NULLB = Path("/sys/kernel/config/nullb")
TMPFS = Path("/tmp/bench")
numbers = itertools.count()


def call(*words):
    done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=False)
    if done.returncode:
        raise Failure(f"{' '.join(map(str, words))}: status {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def copy_binaries(*built):
    """Places in the guest's own memory, by name: the shared folder is slow, and a build may replace them meanwhile.
    built: paths in build/."""
    folder = Path("/tmp/bench-bin")
    folder.mkdir()
    return {Path(path).name: str(shutil.copy2(BUILD / path, folder)) for path in built}


def prepare():
    """Loads the drivers and makes the folders of backings."""
    call("modprobe", "null_blk", "nr_devices=0")
    call("modprobe", "loop", "max_loop=0")
    if not NULLB.exists():
        call("mount", "-t", "configfs", "none", "/sys/kernel/config")
    TMPFS.mkdir(parents=True, exist_ok=True)


def wait_for(condition, what, poll_s=0.05):
    if not process.wait_until(condition, TIMEOUT_S, poll_s):
        raise Failure(f"{what}: not after {TIMEOUT_S} s")


def use_no_scheduler(device):
    """A one-queue device is given mq-deadline by the kernel, which would be measured with it."""
    attribute = Path("/sys/block", Path(device).name, "queue/scheduler")
    attribute.write_text("none", encoding="ascii")
    if "[none]" not in attribute.read_text(encoding="ascii"):
        raise Failure(f"{attribute} does not take none")


class NullBlk:
    """A null_blk device of its own. Kept: one that keeps what is written, for content checks."""

    def __init__(self, kept, blocksize=512):
        self.folder = NULLB / f"bench{next(numbers)}"
        self.folder.mkdir()
        values = {"size": FILE_BYTES >> 20 if kept else NULL_BYTES >> 20, "memory_backed": int(kept), "irqmode": 0,
                  "queue_mode": 2, "submit_queues": 1, "hw_queue_depth": DEPTH, "blocksize": blocksize, "power": 1}
        for name, value in values.items():
            (self.folder / name).write_text(str(value), encoding="ascii")
        self.path = f"/dev/{self.folder.name}"
        wait_for(Path(self.path).exists, self.path)
        use_no_scheduler(self.path)

    def stop(self):
        (self.folder / "power").write_text("0", encoding="ascii")
        self.folder.rmdir()


class NvmeLoop:
    """A drive of this kernel's own over a null_blk, one queue; its passthrough node is .generic."""

    def __init__(self, kept):
        self.disk = NullBlk(kept, blocksize=4096)
        try:
            self.drive = nvmet.Drive(self.disk.path, queues=1)
        except BaseException:
            self.disk.stop()
            raise
        self.path, self.generic = self.drive.block[0], self.drive.generic[0]

    def stop(self):
        self.drive.close()
        self.disk.stop()


class QemuDrive:
    """The guest's drive over nothing, which all its rows share."""
    SERIAL = "bench"

    def __init__(self):
        call("modprobe", "nvme")
        wait_for(lambda: self.nodes() is not None, f"the drive with serial number {self.SERIAL}")
        self.path, self.generic = self.nodes()

    def nodes(self):
        """Of its namespace; None while the driver is not ready."""
        for serial in Path("/sys/class/nvme").glob("*/serial"):
            if serial.read_text(encoding="ascii").strip() == self.SERIAL:
                for block in serial.parent.glob("nvme*n1"):
                    return f"/dev/{block.name}", f"/dev/ng{block.name[4:]}"
        return None

    def stop(self):
        pass


class TmpfsFile:
    """A file on tmpfs; the content check fills it."""

    def __init__(self):
        self.path = str(TMPFS / f"file{next(numbers)}")
        with open(self.path, "wb") as out:
            out.truncate(FILE_BYTES)

    def stop(self):
        os.unlink(self.path)


class Zeroes:
    """No backing."""
    path = ""

    def stop(self):
        pass


def make_backing(kind, kept):
    return {"null_blk": lambda: NullBlk(kept), "nvme": lambda: NvmeLoop(kept),
            "drive": lambda: NvmeLoop(kept) if kept else QemuDrive(), "tmpfs": TmpfsFile, "zeroes": Zeroes}[kind]()


class Bare:
    """The backing itself, nobody in between."""

    def __init__(self, row, backing, places):
        self.device = backing.path

    def facts(self):
        return {}

    def stop(self):
        pass


class Passthrough(Bare):
    """The drive's generic node, for a load that speaks NVMe."""

    def __init__(self, row, backing, places):
        super().__init__(row, backing, places)
        self.device = backing.generic


class Loop:
    """The kernel's loop device with direct I/O."""

    def __init__(self, row, backing, places):
        self.device = call("losetup", "--find", "--show", "--direct-io=on", backing.path).strip()
        use_no_scheduler(self.device)

    def facts(self):
        name = Path(self.device).name
        return {"direct": int(Path(f"/sys/block/{name}/loop/dio").read_text(encoding="ascii"))}

    def stop(self):
        call("losetup", "--detach", self.device)


class Kublk:
    """The kernel's own ublk test server."""

    def __init__(self, row, backing, places):
        self.binary = places["kublk"]
        target = ["loop", backing.path] if backing.path else ["null"]
        output = call(self.binary, "add", "-t", target[0], "-q", 1, "-d", DEPTH, *row.words, *target[1:])
        found = re.search(r"dev id (\d+)", output)
        if not found:
            raise Failure(f"kublk add: no device id in: {output}")
        self.number = found.group(1)
        self.device = f"/dev/ublkb{self.number}"
        self.mode = " ".join(row.words) or "plain copy"
        wait_for(Path(self.device).exists, self.device)
        use_no_scheduler(self.device)

    def facts(self):
        return {"buffer_mode": self.mode}

    def stop(self):
        call(self.binary, "del", "-n", self.number)


class Daemon:
    """ublkd with a config, from all devices live to a checked end."""

    def __init__(self, config, places):
        self.ublkctl = places["ublkctl"]
        self.names = [device["name"] for device in config["devices"]]
        stem = f"daemon{next(numbers)}"
        self.run_dir = TMPFS / f"{stem}.run"
        self.log = TMPFS / f"{stem}.log"
        path = TMPFS / f"{stem}.json"
        path.write_text(json.dumps(config), encoding="utf-8")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([places["ublkd"], "--config", path, "--run-dir", self.run_dir],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_for(self.are_live, "devices live", LIVE_POLL_S)
        except Failure as failure:
            self.process.kill()
            self.process.wait()
            raise Failure(f"{failure}; ublkd said: {self.log.read_text(encoding='utf-8', errors='replace')}") from None
        self.paths = {name: device["path"] for name, device in self.list().items()}

    def list(self):
        """The devices as `ublkctl list` shows them, by name; none while there is no answer."""
        done = subprocess.run([self.ublkctl, "--socket", self.run_dir / "ublkd.sock", "-o", "json", "list"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        devices = json.loads(done.stdout)["devices"] if done.returncode == 0 else []
        return {device["name"]: device for device in devices}

    def are_live(self):
        if self.process.poll() is not None:
            raise Failure(f"ublkd ended with status {self.process.returncode}")
        devices = self.list()
        for name, device in devices.items():
            if device["state"] == "failed":
                raise Failure(f"device {name} failed: {device['error']}")
        return all(name in devices and devices[name]["state"] == "live" for name in self.names)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(TIMEOUT_S)
        left = [path for path in self.paths.values() if Path(path).exists()]
        if status or left:
            raise Failure(f"ublkd ended with status {status}, {', '.join(left) or 'no device'} is left: "
                          f"{self.log.read_text(encoding='utf-8', errors='replace')}")


class Ublkd(Daemon):
    """ublkd with one device, one queue, a tag set of its own."""

    def __init__(self, row, backing, places):
        target = {"null_blk": {"type": "file", "path": backing.path}, "tmpfs": {"type": "file", "path": backing.path},
                  "nvme": {"type": "nvme", "path": backing.path}, "drive": {"type": "nvme", "path": backing.path},
                  "zeroes": {"type": "null", "size": NULL_BYTES}}[row.backing]
        target.update(row.options)
        device = {"name": "bench", "queues": 1, "depth": DEPTH, "target": target, **dict(row.settings)}
        super().__init__({"devices": [device]}, places)
        self.device = self.paths["bench"]

    def facts(self):
        keys = ("buffer_mode", "flags", "scheduler", "queues", "depth", "facts", "leftovers", "peak")
        device = self.list()["bench"]
        return {key: device[key] for key in keys}


SERVERS = {"bare": Bare, "passthrough": Passthrough, "loop": Loop, "kublk": Kublk, "ublkd": Ublkd}


class Running:
    """A row's server on a fresh backing; a context manager."""

    def __init__(self, row, kept, places):
        self.backing = make_backing(row.backing, kept)
        try:
            self.server = SERVERS[row.server](row, self.backing, places)
        except BaseException:
            self.backing.stop()
            raise
        self.device = self.server.device

    def stop(self):
        self.server.stop()
        self.backing.stop()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
