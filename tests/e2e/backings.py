"""What file targets stand on: files on tmpfs and ext4, loop devices, null_blk, device mapper.

    def test_x(daemon, stand):
        backing = stand.make("loop4096", 8 << 20)

All is taken down at the end of the test, after its daemons were ended.
"""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from machine import run, wait_until

CONFIGFS = Path("/sys/kernel/config")
NULL_BLK_ATTRIBUTES = ("size", "blocksize", "memory_backed", "discard", "cache_size", "fua", "max_sectors", "irqmode",
                       "completion_nsec")


@dataclass(frozen=True)
class Backing:
    """`discard_zeroes`: what was discarded reads as zeroes. `block_bytes`: what direct I/O on it needs at least."""
    path: str
    regular: bool = True
    block_bytes: int = 512
    discard_zeroes: bool = True


KINDS = ("tmpfs", "ext4", "loop512", "loop4096", "null_blk", "dm")


class Stand:
    """Makes backings; close() takes them down in reverse order."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.undo = contextlib.ExitStack()
        self.made = 0

    def close(self):
        self.undo.close()

    def name(self, what):
        self.made += 1
        return f"e2e-{what}{self.made}"

    def file(self, size_bytes, folder=None):
        """A sparse file, on the tmpfs of the test unless told otherwise."""
        path = Path(folder or self.folder) / self.name("file")
        with open(path, "wb") as out:
            out.truncate(size_bytes)
        return str(path)

    def mount(self, *words):
        point = self.folder / self.name("mount")
        point.mkdir()
        run("mount", *words, point)
        self.undo.callback(run, "umount", point)
        return point

    def tmpfs(self, size_bytes):
        return self.mount("-t", "tmpfs", "-o", f"size={size_bytes}", "none")

    def ext4(self, size_bytes):
        """A folder on ext4 on a memory-backed null_blk."""
        disk = self.null_blk(size_bytes)
        run("mkfs.ext4", "-q", "-F", "-b", "4096", "-O", "^has_journal", "-E", "nodiscard,lazy_itable_init=1", disk)
        return self.mount("-t", "ext4", disk)

    def loop(self, size_bytes, sector_bytes=512):
        run("modprobe", "loop")
        path = self.file(size_bytes)
        node = run("losetup", "--find", "--show", "--sector-size", sector_bytes, path).stdout.strip()
        self.undo.callback(run, "losetup", "-d", node)
        return node

    def null_blk(self, size_bytes, blocksize=512, **attributes):
        """A node; its attributes are in configfs under its name."""
        run("modprobe", "null_blk", "nr_devices=0")
        if not (CONFIGFS / "nullb").exists():
            run("mount", "-t", "configfs", "none", CONFIGFS, check=False)
        folder = CONFIGFS / "nullb" / self.name("null")
        folder.mkdir()
        self.undo.callback(folder.rmdir)
        values = {"size": size_bytes >> 20, "blocksize": blocksize, "memory_backed": 1, "discard": 1, **attributes}
        for key in NULL_BLK_ATTRIBUTES:
            if key in values:
                (folder / key).write_text(str(values[key]), encoding="ascii")
        set_power(folder, 1)
        self.undo.callback(set_power, folder, 0)
        node = f"/dev/{folder.name}"
        wait_until(lambda: os.path.exists(node), what=node)
        return node

    def dm(self, *table):
        """A device mapper node; lines of the table are formatted with the sizes in sectors by the caller."""
        name = self.name("dm")
        run("dmsetup", "create", name, "--noudevsync", "--noudevrules", "--table", "\n".join(table))
        self.undo.callback(run, "dmsetup", "remove", "--noudevsync", "--noudevrules", "--retry", name)
        minor = run("dmsetup", "info", "-c", "--noheadings", "-o", "minor", name).stdout.strip()
        node = f"/dev/dm-{minor}"
        wait_until(lambda: os.path.exists(node), what=node)
        return name, node

    @staticmethod
    def swap(name, *table):
        """Another table for a device mapper device that is in use."""
        run("dmsetup", "suspend", "--noflush", "--nolockfs", name)
        run("dmsetup", "reload", name, "--table", "\n".join(table))
        run("dmsetup", "resume", "--noudevsync", name)

    def make(self, kind, size_bytes):
        """A backing of one of KINDS."""
        if kind == "tmpfs":
            return Backing(self.file(size_bytes))
        if kind == "ext4":
            return Backing(self.file(size_bytes, self.ext4(size_bytes + (16 << 20))))
        if kind == "null_blk":
            return Backing(self.null_blk(size_bytes), regular=False, discard_zeroes=False)
        if kind == "dm":
            node = self.null_blk(size_bytes)
            return Backing(self.dm(f"0 {size_bytes >> 9} linear {node} 0")[1], regular=False, discard_zeroes=False)
        sector_bytes = int(kind.removeprefix("loop"))
        return Backing(self.loop(size_bytes, sector_bytes), regular=False, block_bytes=sector_bytes,
                       discard_zeroes=False)


def set_power(folder, on):
    """Off drops what a null_blk with a cache has not been told to flush: the power cut."""
    (folder / "power").write_text(str(on), encoding="ascii")


def power_cut(node):
    folder = CONFIGFS / "nullb" / Path(node).name
    set_power(folder, 0)
    set_power(folder, 1)
    wait_until(lambda: os.path.exists(node), what=node)


@pytest.fixture
def stand(request, daemon, tmp_path):  # daemon: so that it is there before request.node.daemons is read
    made = Stand(tmp_path)
    yield made
    try:
        for d in request.node.daemons:
            if d.running():
                d.stop()
    finally:
        for d in request.node.daemons:
            d.kill()
        made.close()
