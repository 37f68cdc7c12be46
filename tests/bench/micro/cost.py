#!/usr/bin/python3
"""`./dev bench --cost`: instructions per I/O of tags, sharing and accounting, and of calling a target one by one.

Runs mq_cost under callgrind: the dispatcher beside a free list without sharing and accounting, and the dispatcher with
each list handed to its target one request at a time. Each is run twice, with FEW and with MANY I/Os; the difference is
what I/Os cost, without start and end. Instructions are counted, so other programs on the machine do not matter.

The table is printed and left in build/bench, with all figures as JSON beside it. Exit status 1: a limit was missed.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "vm"))

import programs  # noqa: E402
from paths import BUILD  # noqa: E402
from progress import Failure, main_guard, say, step  # noqa: E402

OUT = BUILD / "bench"
PROGRAM = programs.path("mq_cost")
FEW, MANY = 100_000, 200_000  # I/Os
RUN_TIMEOUT_S = 300
ENGINES = ("free-list", "dispatcher", "dispatcher-one-by-one")


@dataclass(frozen=True)
class Load:
    """128 tags. `added_max`: most instructions per I/O that the dispatcher may add to the free list; 0: no limit."""
    devices: int
    outstanding: int
    added_max: int = 0


LOADS = (Load(1, 128, 120), Load(64, 128, 120), Load(64, 8192))


def instructions(engine, load, ios):
    words = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(PROGRAM), engine,
             str(load.devices), str(load.outstanding), str(ios)]
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_TIMEOUT_S,
                              check=False)
    except FileNotFoundError:
        raise Failure("no valgrind here; run ./dev setup") from None
    except subprocess.TimeoutExpired:
        raise Failure(f"{' '.join(words)}: no end after {RUN_TIMEOUT_S} s") from None
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or not found:
        raise Failure(f"{' '.join(words)}: status {done.returncode}: {(done.stdout + done.stderr)[-1000:]}")
    return int(found.group(1))


def per_io(engine, load):
    return (instructions(engine, load, MANY) - instructions(engine, load, FEW)) / (MANY - FEW)


def measure():
    found = []
    for load in LOADS:
        with step(f"{load.devices} device(s), {load.outstanding} outstanding"):
            found.append({"devices": load.devices, "outstanding": load.outstanding, "added_max": load.added_max,
                          "per_io": {engine: per_io(engine, load) for engine in ENGINES}})
    return found


def added(row):
    return row["per_io"]["dispatcher"] - row["per_io"]["free-list"]


def is_missed(row):
    return row["added_max"] != 0 and round(added(row), 1) > row["added_max"]


def render(found, command):
    yield "Instructions per I/O, 128 tags, up to 32 requests complete and arrive a turn"
    yield (f"{'devices':>8}{'outstanding':>13}{'free list':>11}{'dispatcher':>12}{'added':>8}{'limit':>8}{'':8}"
           f"{'one by one':>12}{'the list is worth':>19}")
    for row in found:
        plain, lists, single = (row["per_io"][engine] for engine in ENGINES)
        limit = f"<= {row['added_max']}" if row["added_max"] else ""
        judged = ("MISSED" if is_missed(row) else "ok") if limit else ""
        yield (f"{row['devices']:8}{row['outstanding']:13}{plain:11.1f}{lists:12.1f}{added(row):8.1f}{limit:>8}  "
               f"{judged:6}{single:12.1f}{single - lists:19.1f}")
    yield ""
    yield f"made by: {command}   {time.strftime('%Y-%m-%dT%H:%M:%S')}"


def main():
    parser = argparse.ArgumentParser(prog="./dev bench --cost", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-build", action="store_true", help="mq_cost is up to date")
    given = parser.parse_args()
    if not given.no_build:
        programs.build("mq_cost")
    found = measure()
    text = "\n".join(render(found, f"./dev bench --cost{' --no-build' * given.no_build}")) + "\n"
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / time.strftime("cost-%Y%m%d-%H%M%S.json")
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".txt").write_text(text, encoding="utf-8")
    print(text, end="")
    say(f"left in {path} and .txt")
    return 1 if any(map(is_missed, found)) else 0


if __name__ == "__main__":
    main_guard(main)
