#!/usr/bin/python3
"""The part of `./dev bench` that runs inside the guest: starts every row's server, checks its content, measures all
rows in interleaved rounds, and leaves what it found as JSON. Needs root and a kernel with ublk.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "vm"))

import content  # noqa: E402
import load  # noqa: E402
import probes  # noqa: E402
import rows  # noqa: E402
import servers  # noqa: E402
from progress import Failure, main_guard  # noqa: E402

NVME = ("nvme", "drive")  # backings
BINARIES = ("release/ublkd", "release/ublkctl", "peers/kublk", "peers/io_uring")


def say(text):
    print(text, flush=True)  # without the time: a guest under icount has its own


class Bench:
    """The rows that stand, and what was measured of each; a row that fails is left out of what follows."""

    def __init__(self, chosen, places):
        self.rows = chosen
        self.places = places
        self.running = {}
        self.results = {row.name: {"iops": [], "punts": None, "bounces": None, "p50_us": None, "facts": {}, "error": ""}
                        for row in chosen}

    def fail(self, row, error):
        self.results[row.name]["error"] = str(error)
        say(f"{row.title}: FAILED: {error}")

    def guarded(self, row, step):
        """Runs a step of a row; False when it failed."""
        try:
            step(row)
        except (Failure, OSError, subprocess.SubprocessError) as error:
            self.fail(row, error)
            return False
        return True

    def check_twin(self, row):
        """null_blk forgets what is written, so its rows are checked on one that does not, served the same way."""
        with servers.Running(row, kept=True, places=self.places) as twin:
            content.check(twin.device, zeroes=False)

    def start(self, row):
        forgets = row.backing in ("null_blk", *NVME)
        if forgets and row.server != "passthrough":
            self.check_twin(row)
        running = servers.Running(row, kept=False, places=self.places)
        self.running[row.name] = running
        if not forgets:
            content.check(running.device, zeroes=row.backing == "zeroes")
        self.results[row.name]["facts"] = running.server.facts()

    def measure_iops(self, row):
        value = load.iops(self.places["io_uring"], self.running[row.name].device, row)
        self.results[row.name]["iops"].append(value)
        say(f"{row.title}: {value:,.0f} IOPS")

    def count_copies(self, row):
        """In a run of its own: a probe that is hit costs more than what it counts."""
        with probes.Probes() as counted:
            load.iops(self.places["io_uring"], self.running[row.name].device, row)
            counts = counted.counts()
        self.results[row.name].update(punts=counts[probes.PUNTS], bounces=counts[probes.BOUNCES])
        say(f"{row.title}: {counts[probes.PUNTS]} punts, {counts[probes.BOUNCES]} bounces")

    def measure_p50(self, row, tsc_hz):
        self.results[row.name]["p50_us"] = load.p50_us(self.places["io_uring"], self.running[row.name].device, row,
                                                         tsc_hz)

    def good(self):
        return [row for row in self.rows if not self.results[row.name]["error"]]

    def run(self, rounds, tsc_hz):
        for row in self.rows:
            say(f"{row.title}: start, check content")
            self.guarded(row, self.start)
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}, depth 128")
            for row in self.good():
                self.guarded(row, self.measure_iops)
        say("punts and bounces")
        for row in self.good():
            if row.backing in NVME:
                self.guarded(row, self.count_copies)
        say("depth 1")
        for row in self.good():
            self.guarded(row, lambda row: self.measure_p50(row, tsc_hz))

    def stop(self):
        for row in reversed(self.rows):
            running = self.running.pop(row.name, None)
            if running:
                self.guarded(row, lambda _, running=running: running.stop())


def tsc_rate_hz():
    """The clock t/io_uring takes its times from, as the kernel found it."""
    log = subprocess.run(["dmesg"], capture_output=True, text=True, check=False).stdout
    found = re.findall(r"tsc: (?:Detected|Refined TSC clocksource calibration:) ([\d.]+) MHz", log)
    return int(float(found[-1]) * 1000000) if found else 1000000000


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", required=True, help="folder for results.json")
    given = parser.parse_args()
    servers.prepare()
    bench = Bench(rows.chosen(given.rows), servers.copy_binaries(*BINARIES))
    try:
        bench.run(given.rounds, tsc_rate_hz())
    finally:
        bench.stop()
    out = {"kernel": platform.release(), "icount": os.environ.get("UBLKD_ICOUNT") == "1",
           "cpus": os.cpu_count(), "rows": bench.results}
    Path(given.out, "results.json").write_text(json.dumps(out, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    main_guard(main)
