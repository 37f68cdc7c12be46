"""The guest as the tests see it: kernel log, leftovers of ublkd, conditions to wait for."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/vm"))

import console  # pylint: disable=wrong-import-position

IO_ERROR = re.compile(r"I/O error|lost async page write|EXT4-fs error|rejecting I/O|Unrecovered")
DRIVER = Path("/sys/module/ublk_drv")


def wait_until(condition, timeout_s=10, poll_s=0.01, what="the condition"):
    """Polls until condition() is true and returns its value; fails the test after timeout_s."""
    end_s = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end_s, f"{what}: not so after {timeout_s} s"
        time.sleep(poll_s)


def run(*words, timeout_s=30, check=True, **options):
    """Runs a program; its output is text in .stdout and .stderr."""
    done = subprocess.run([str(word) for word in words], stdin=options.pop("stdin", subprocess.DEVNULL),
                          capture_output=True, text=True, timeout=timeout_s, check=False, **options)
    assert not check or done.returncode == 0, f"{words}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done


class KernelLog:
    """New lines of the kernel log since the last look."""

    def __init__(self):
        self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.fd, 0, os.SEEK_END)

    def new_lines(self):
        lines = []
        while True:
            try:
                record = os.read(self.fd, 8192).decode(errors="replace")
            except BlockingIOError:
                return lines
            except BrokenPipeError:  # the oldest records were overwritten before we came
                continue
            lines.append(record.partition(";")[2].partition("\n")[0])


def complaints(lines, expected):
    """Lines that tell of a fault; `expected` is a pattern of those the test means to cause, or None."""
    found = console.scan("\n".join(lines)) + [line for line in lines if IO_ERROR.search(line)]
    return [line for line in found if not (expected and re.search(expected, line))]


def processes(name):
    """Process ids by command name; zombies do not count."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, _, rest = stat.read_text().partition(" (")
        except OSError:
            continue
        comm, _, rest = rest.rpartition(") ")
        if comm == name and rest[0] != "Z":
            found.append(int(pid))
    return found


def nodes():
    """Device nodes of ublk but the control node."""
    return sorted(entry.name for entry in os.scandir("/dev") if re.match(r"ublk[bc]\d", entry.name))


def leftovers():
    """What no test may leave behind."""
    left = [f"/dev/{name}" for name in nodes()]
    left += [f"process {pid} ({name})" for name in ("ublkd", "ublkctl", "fio") for pid in processes(name)]
    left += [f"loop device {path.parts[3]}" for path in Path("/sys/block").glob("loop*/loop/backing_file")]
    left += [f"dm device {path.name}" for path in Path("/sys/block").glob("dm-*")]
    with open("/proc/mounts", encoding="utf-8") as mounts:
        left += [f"mount {line.split()[1]}" for line in mounts if line.startswith("/dev/ublkb")]
    return left


def reload_driver():
    """Removes even the devices of killed servers; they would fail the next test too."""
    if DRIVER.exists():
        run("modprobe", "-r", "ublk_drv", check=False)
    run("modprobe", "ublk_drv", check=False)
