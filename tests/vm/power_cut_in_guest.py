"""The guest's part of power_cut.py: a file system on ublkd's NVMe device, a file with fsync, then writes and more."""

import json
import mmap
import os
import subprocess
import sys
import time
from pathlib import Path

from nvmet import wait_for
from power_cut import content

BUILD = Path(os.environ["UBLKD_BUILD"])
SERIAL = "cut"


def generic_node():
    for serial in Path("/sys/class/nvme").glob("*/serial"):
        if serial.read_text(encoding="ascii").strip() == SERIAL:
            for node in serial.parent.glob("ng*n1"):
                return f"/dev/{node.name}"
    return None


def write_synced(path, data):
    with open(path, "wb") as out:
        out.write(data)
        os.fsync(out.fileno())


def main():
    ready = Path(sys.argv[1])
    subprocess.run(["modprobe", "nvme"], check=True)
    wait_for(generic_node, "the drive")
    config = Path("/tmp/config.json")
    config.write_text(json.dumps({"devices": [{"name": "a", "target": {"type": "nvme", "path": generic_node()}}]}),
                      encoding="utf-8")
    log = open("/tmp/ublkd.log", "wb")  # until the power goes
    subprocess.Popen([BUILD / "ublkd", "--config", config, "--run-dir", "/tmp/run"], stdout=log, stderr=log)
    wait_for(lambda: b"ready: 1" in Path("/tmp/ublkd.log").read_bytes(), "ublkd ready")
    subprocess.run(["mkfs.ext4", "-q", "-F", "/dev/ublkb0"], check=True)
    Path("/tmp/mnt").mkdir()
    subprocess.run(["mount", "/dev/ublkb0", "/tmp/mnt"], check=True)
    write_synced("/tmp/mnt/synced", content())
    write_synced("/tmp/mnt/second", b"2")
    late = os.open("/tmp/mnt/late", os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
    block = mmap.mmap(-1, 1 << 16)
    while True:  # to the drive, and not flushed
        os.pwrite(late, block, 0)
        ready.touch()
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main())
