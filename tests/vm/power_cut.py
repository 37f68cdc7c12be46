#!/usr/bin/python3
"""Cuts the power of a guest whose ublkd serves an NVMe drive with a volatile cache, and looks at what the drive kept.

qemu logs every write and flush of the drive (blklogwrites). The guest makes a file system, writes a file with fsync,
and goes on writing without; then qemu is killed. The disk is rebuilt from the log up to the last flush, as a drive that
loses all of its cache leaves it: the file must be there, byte for byte. The drive does not pass on the FUA bit, so the
guest's second fsync is what covers the first one's commit record.

  power_cut.py [--kernel 7.3]     exit status 0: nothing was lost
"""

import argparse
import random
import shlex
import shutil
import struct
import subprocess
import tempfile
import time
from pathlib import Path

import accel
import guest
from paths import BUILD, PYTHON, ROOT
from progress import Failure, main_guard, say

IMAGE_BYTES = 64 << 20
LOG_BYTES = 1 << 30
READY_TIMEOUT_S = 120
MAGIC = 0x6a736677736872
FLUSH, DISCARD = 1, 4
SECTOR = 512
FILE_BYTES = 4 << 20


def content():
    """What the guest writes into the file; the seed makes both sides agree."""
    return random.Random(19).randbytes(FILE_BYTES)


def entries(log):
    """(sector, sectors, flags, offset of the data) of each entry, the unflushed ones at the end too."""
    with open(log, "rb") as source:
        magic, _, _, sector_bytes = struct.unpack("<QQQI", source.read(28))
        if magic != MAGIC:
            raise Failure(f"{log} is no log of writes")
        at = sector_bytes
        while True:
            source.seek(at)
            sector, count, flags, _ = struct.unpack("<QQQQ", source.read(32))
            if not (sector or count or flags):
                return
            yield sector, count, flags, at + sector_bytes
            at += sector_bytes + (0 if flags & DISCARD else count * sector_bytes)


def rebuild(log, image, until):
    """The disk after the first `until` entries, from zeroes."""
    with open(log, "rb") as source, open(image, "wb") as disk:
        disk.truncate(IMAGE_BYTES)
        for number, (sector, count, flags, data) in enumerate(entries(log)):
            if number == until:
                return
            disk.seek(sector * SECTOR)
            if flags & DISCARD:
                disk.write(bytes(count * SECTOR))
            elif count:
                source.seek(data)
                disk.write(source.read(count * SECTOR))


def file_of(image, name, folder):
    """Content of a file of the rebuilt disk; empty when it is not there."""
    fsck = subprocess.run(["e2fsck", "-fy", image], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False)
    if fsck.returncode > 1:  # 1: the journal was replayed
        raise Failure(f"e2fsck: status {fsck.returncode}\n{fsck.stdout}{fsck.stderr}")
    out = folder / "out"
    out.unlink(missing_ok=True)
    subprocess.run(["debugfs", "-R", f"dump /{name} {out}", image], stdin=subprocess.DEVNULL, capture_output=True,
                   check=True)
    return out.read_bytes() if out.exists() else b""


def cut(kernel, folder):
    """Boots, waits until the guest has synced and writes on, and kills it; the log."""
    log, image = folder / "log", folder / "disk"
    for path, size in ((log, LOG_BYTES), (image, IMAGE_BYTES)):
        with open(path, "wb") as out:
            out.truncate(size)
    drive = (f"-blockdev driver=file,node-name=d0,filename={image} -blockdev driver=file,node-name=l0,filename={log} "
             "-blockdev driver=blklogwrites,node-name=w0,file=d0,log=l0 -device nvme,serial=cut,drive=w0")
    line = shlex.join([PYTHON, str(Path(__file__).with_name("power_cut_in_guest.py")), "/job/ready"])
    spec = guest.Spec(line, kernel=kernel, cwd=str(ROOT), qemu=(drive,), timeout_s=READY_TIMEOUT_S,
                      env={"UBLKD_BUILD": BUILD / "release"})
    with guest.Guest(spec, accel.choose(guest.works_with_kvm(spec))) as running:
        running.start()
        end_s = time.monotonic() + READY_TIMEOUT_S
        while not (running.job / "ready").exists():
            if time.monotonic() > end_s or running.status() is not None:
                raise Failure(f"the guest did not get ready; its log:\n{running.log()}")
            time.sleep(0.05)
        running.kill()
    return log


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="7.3")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix=".power-cut-", dir=BUILD))
    try:
        log = cut(given.kernel, folder)
        all_entries = list(entries(log))
        flushes = [number for number, entry in enumerate(all_entries) if entry[2] & FLUSH]
        lost = len(all_entries) - flushes[-1] - 1 if flushes else 0
        say(f"{len(all_entries)} writes and flushes, {len(flushes)} of them flushes; {lost} after the last are lost")
        if lost == 0:
            raise Failure("nothing was in the drive's cache when the power was cut: the test shows nothing")
        rebuild(log, folder / "after", flushes[-1] + 1)
        if file_of(folder / "after", "synced", folder) != content():
            raise Failure("the file that was synced is not what it was")
        rebuild(log, folder / "before", flushes[0] + 1)
        if file_of(folder / "before", "synced", folder):
            raise Failure("the file is there before its flush: the replay shows nothing")
        say("the synced file is whole")
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    main_guard(main)
