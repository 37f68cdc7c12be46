#!/usr/bin/python3
"""`./dev bench`: what one 4 KiB random read costs, in null_blk, the kernel's loop device, kublk and ublkd.

All rows stand in one guest with one CPU in which one instruction is one virtual nanosecond, so that 1e9 / IOPS is
instructions per I/O of client, kernel and server together, whatever else this machine does. Rows are measured in
interleaved rounds; the median counts. Each device is first read and compared, byte by byte.

The table is printed and left in build/bench, with all figures as JSON beside it. Exit status 0: everything ran.
"""

import argparse
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "vm"))

import guest  # noqa: E402
import peers  # noqa: E402
import presets  # noqa: E402
import rows  # noqa: E402
import table  # noqa: E402
from paths import BUILD, PYTHON, ROOT  # noqa: E402
from progress import Failure, main_guard, say, step  # noqa: E402

OUT = BUILD / "bench"
KERNEL = "7.3"
GUEST_TIMEOUT_S = 3600
DRIVE = ("-drive driver=null-co,size=64G,if=none,id=bench -device nvme,serial=bench,drive=bench,"
         "logical_block_size=4096,physical_block_size=4096",)  # whose device model moves no data


def first_line(*words):
    done = subprocess.run(words, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout.strip() else "unknown"


def versions():
    return {"ublkd": f"{first_line(BUILD / 'release/ublkd', '--version').removeprefix('ublkd ')} "
                     f"({first_line('git', 'describe', '--always', '--dirty', '--tags')})",
            "liburing": first_line("pkg-config", "--modversion", "liburing"),
            "kublk": peers.version("kublk"), "t/io_uring": peers.version("io_uring"),
            "qemu": first_line("qemu-system-x86_64", "--version")}


class Relay(threading.Thread):
    """Says each line of the guest as it comes: a guest under icount has no notion of how long it takes."""

    def __init__(self):
        super().__init__(daemon=True)
        self.read_end, self.write_end = os.pipe()

    def run(self):
        with open(self.read_end, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                say(line.rstrip())

    def __enter__(self):
        self.start()
        return self.write_end

    def __exit__(self, *_):
        os.close(self.write_end)
        self.join()


@contextlib.contextmanager
def run_in_guest(script, *words, **spec):
    """Runs a script of this folder in a guest; the folder in which it left results.json, and whether something broke.
    The folder is there until the `with` block ends."""
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".job-", dir=OUT) as job:
        with Relay() as output:
            line = shlex.join([PYTHON, str(Path(__file__).with_name(script)), "--out", job, *words])
            result = guest.run(guest.Spec(line, kernel=KERNEL, rw=(job,), cwd=str(ROOT), timeout_s=GUEST_TIMEOUT_S,
                                          stdout=output, **spec))
        for line in result.complaints:
            print(f"kernel log: {line}", file=sys.stderr)
        if not Path(job, "results.json").exists():
            raise Failure(f"the guest left no results (status {result.status}); its log: {result.kernel_log}")
        yield Path(job), bool(result.status or result.complaints)


def results(folder):
    return json.loads((folder / "results.json").read_text(encoding="utf-8"))


def measure(given):
    """Runs the guest; what it left."""
    words = ["--rounds", str(given.rounds), *(["--rows", *given.rows] if given.rows else [])]
    with run_in_guest("run_in_guest.py", *words, icount=not given.wall, cpus=2, qemu=DRIVE) as (folder, broken):
        return results(folder), broken


def leave(prefix, found, text):
    """Prints the text and leaves it with the figures in build/bench; their path without its suffix."""
    path = OUT / time.strftime(f"{prefix}%Y%m%d-%H%M%S")
    path.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".txt").write_text(text, encoding="utf-8")
    print(text, end="")
    return path


def arguments():
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", default=[], metavar="NAME",
                        help="rows of that name, or that begin so, with their peers: "
                             + ", ".join(row.name for row in rows.ROWS))
    parser.add_argument("--rounds", type=int, help="rounds over all rows (default 3)")
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--wall", action="store_true",
                        help="IOPS by the clock in a guest with 2 CPUs, for their ratios only: no instructions")
    parser.add_argument("--no-build", action="store_true", help="build/release is up to date")
    given = parser.parse_args()
    given.rounds = given.rounds or (1 if given.quick else 3)
    if given.rounds < 1:
        parser.error("--rounds: at least 1")
    unknown = [name for name in given.rows if not rows.named(name)]
    if unknown:
        parser.error(f"no row begins with {', '.join(unknown)}")
    return given


def main():
    given = arguments()
    signal.signal(signal.SIGTERM, guest.stop)
    if not given.no_build:
        presets.build("release")
    peers.kublk()
    peers.io_uring()
    with step(f"measure in a guest with kernel {KERNEL}"):
        found, broken = measure(given)
    found.update(versions=versions(), rounds=given.rounds, date=time.strftime("%Y-%m-%dT%H:%M:%S"),
                 command=f"./dev bench {shlex.join(sys.argv[1:])}".strip())
    path = leave("", found, table.render(found))
    say(f"left in {path}.txt and .json")
    return 1 if broken or any(row["error"] for row in found["rows"].values()) else 0


if __name__ == "__main__":
    main_guard(main)
