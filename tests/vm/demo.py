#!/usr/bin/python3
"""`./dev demo`: builds ublkd and shows two devices at work, here or, where this kernel has no ublk, in a guest."""

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import guest
import presets
from paths import BUILD, PYTHON
from progress import Failure, main_guard, say
from qemu import Drive

KERNEL = "7.3"
GUEST_TIMEOUT_S = 180
RUN = Path(__file__).with_name("demo_run.py")


def machine_has_ublk():
    """True when the demo can run here: root, and a kernel with ublk."""
    if os.geteuid() != 0:
        return False
    if not Path("/dev/ublk-control").exists() and shutil.which("modprobe"):
        subprocess.run(["modprobe", "-q", "ublk_drv"], stderr=subprocess.DEVNULL, check=False)
    return Path("/dev/ublk-control").exists()


def run_in_guest(words):
    # The file's disk is a real one to the guest: its tmpfs would answer direct I/O from worker threads.
    command = ("mkdir -p /mnt/demo && mkfs.ext4 -q -F /dev/vda && mount /dev/vda /mnt/demo && "
               f"{shlex.join([*words, '--folder', '/mnt/demo'])}; status=$?; umount /mnt/demo; exit $status")
    say(f"this kernel has no ublk that can be used: the demo runs in a guest with kernel {KERNEL}")
    result = guest.run(guest.Spec(command, kernel=KERNEL, drives=(Drive("virtio", "demo", 512 << 20),),
                                  timeout_s=GUEST_TIMEOUT_S, env={"UBLKD_DEV_START": os.environ["UBLKD_DEV_START"]}))
    for line in result.complaints:
        print(f"kernel log: {line}", file=sys.stderr)
    return result.status or (1 if result.complaints else 0)


def main():
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__)
    parser.add_argument("--short", action="store_true", help="one second per measurement")
    parser.add_argument("--no-build", action="store_true", help="build/release is up to date")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, guest.stop)
    if not given.no_build:
        presets.build("release")
    if not (BUILD / "release/ublkd").exists():
        raise Failure(f"no {BUILD}/release/ublkd: ./dev build release makes it")
    words = [PYTHON, str(RUN), *(["--short"] if given.short else [])]
    if not machine_has_ublk():
        return run_in_guest(words)
    try:
        return subprocess.run(words, check=False).returncode
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    main_guard(main)
