"""NVMe drives for tests: those of the guest, by serial number, and ones of the kernel's own (nvmet) over loop and TCP.

    def test_x(daemon, drives):
        drive = drives.make("loop4096")     # one of KINDS
        d = daemon({"devices": [nvme_device("a", drive)]})
"""

import contextlib
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

import nvmet
from backings import Stand
from machine import run, wait_until

KINDS = ("pci512", "pci4096", "loop512", "loop4096")
SERIALS = {"pci512": "ublkd-nvme-512", "pci4096": "ublkd-nvme-4k", "fault": "ublkd-fault", "two": "ublkd-two",
           "odd": "ublkd-odd"}
MIB = 1 << 20


@dataclass(frozen=True)
class Drive:
    """`controller` is its name (nvmeX)."""
    block: str
    generic: str
    controller: str
    block_bytes: int

    @property
    def reset(self):
        return Path("/sys/class/nvme", self.controller, "reset_controller")

    def queue(self, name):
        return Path("/sys/block", Path(self.block).name, "queue", name).read_text(encoding="ascii").strip()


def controller_of(serial):
    for path in Path("/sys/class/nvme").glob("nvme*"):
        with contextlib.suppress(OSError):
            if (path / "serial").read_text(encoding="ascii").strip() == serial:
                return path.name
    return None


def has_drive(kind):
    return controller_of(SERIALS[kind]) is not None


def of_guest(kind, nsid=1):
    """The guest's drive of that kind."""
    name = wait_until(lambda: controller_of(SERIALS[kind]), what=f"the drive {SERIALS[kind]}")

    def heads():  # the number in the node's name is not the namespace's
        return [path.parent.name for path in Path("/sys/class/nvme", name).glob("nvme*n*/nsid")
                if path.read_text(encoding="ascii").strip() == str(nsid)]

    head, = wait_until(heads, what=f"namespace {nsid} of {name}")
    block_bytes = int(Path("/sys/block", head, "queue/logical_block_size").read_text(encoding="ascii"))
    return Drive(f"/dev/{head}", f"/dev/ng{head[4:]}", name, block_bytes)


def nvme_device(name, drive, generic=True, **more):
    """Target options by a dict `target`."""
    path = drive if isinstance(drive, (str, Path)) else drive.generic if generic else drive.block
    target = {"type": "nvme", "path": str(path), **more.pop("target", {})}
    return {"name": name, "target": target, **more}


def facts(d, name="a"):
    return d.device(name)["facts"]


class Drives:
    """Makes drives; all are taken down at the end."""

    def __init__(self, stand):
        self.stand = stand

    def make(self, kind, size_bytes=64 * MIB, **null_blk):
        if kind in SERIALS:
            drive = of_guest(kind)
            run("blkdiscard", "-f", "-z", "-l", min(size_bytes, 64 * MIB), drive.block)
            return drive
        transport = kind.rstrip("0123456789")
        disk = self.stand.null_blk(size_bytes, blocksize=int(kind[len(transport):]), **null_blk)
        return self.over(disk, transport=transport)

    def over(self, *paths, **options):
        """A drive of the kernel's own on these paths; with several, the first namespace. .nvmet is the other side."""
        made = nvmet.Drive(*paths, **options)
        self.stand.undo.callback(made.close)
        self.nvmet = made
        block_bytes = int(Path("/sys/block", Path(made.block[0]).name, "queue/logical_block_size").read_text())
        return Drive(made.block[0], made.generic[0], made.name, block_bytes)


@pytest.fixture
def drives(stand):
    return Drives(stand)


class Trace:
    """What qemu's drives were told while in the `with` block, from qemu's own trace: .commands, (name, namespace, first
    block, blocks) each; blocks is None where the trace does not tell."""

    EVENTS = ("pci_nvme_io_cmd", "pci_nvme_read", "pci_nvme_write")
    PATH = Path("/job/trace")
    LINE = re.compile(r"pci_nvme_io_cmd .*opname '(NVME_NVM_CMD_|NVME_CMD_)?(\w+)'"
                      r"|pci_nvme_(read|write) .*nsid (\d+) nlb (\d+) count \d+ lba 0x([0-9a-f]+)")

    def __init__(self, monitor):
        self.monitor = monitor
        self.commands = []
        self.moves = []

    def __enter__(self):
        self.begin = self.PATH.stat().st_size if self.PATH.exists() else 0
        for event in self.EVENTS:
            self.monitor.human(f"trace-event {event} on")
        return self

    def __exit__(self, *_):
        for event in self.EVENTS:
            self.monitor.human(f"trace-event {event} off")
        with open(self.PATH, encoding="utf-8", errors="replace") as trace:
            trace.seek(self.begin)
            for match in filter(None, map(self.LINE.search, trace)):
                if match[2]:
                    self.commands.append(match[2])
                else:
                    self.moves.append((match[3], int(match[4]), int(match[6], 16), int(match[5])))
