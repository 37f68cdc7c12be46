#!/usr/bin/python3
"""`./dev bench --micro`: what the tag pools cost, in nanoseconds per tag, beside plain allocators.

Builds mq_micro, runs all its benchmarks several times in random order and takes the best time of each, since other
programs on the machine only ever add. Prints three tables: take and put by pool, batch and fill; what asking again for
the rest of a plug gains; and the goals. All figures are left as JSON in build/bench. Exit status 1: a goal was missed.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "vm"))

import programs  # noqa: E402
from paths import BUILD  # noqa: E402
from progress import Failure, main_guard, say, step  # noqa: E402

OUT = BUILD / "bench"
PROGRAM = programs.path("mq_micro")
FILLS = (0, 50, 75, 90, 97)
BATCHES = (1, 8, 32)
PLUGS = (1, 2, 4, 8, 16, 32, 64)
DEPTHS = (256, 4096)
POOLS = {"single": "single owner", "single_masks": "- its bitmap alone", "atomic": "atomic",
         "plain": "plain single-bit", "mutex": "mutex, per batch", "none": "the loop alone"}
SINGLE_NS_MAX = 2.0
ATOMIC_RATIO_MIN = {1: 8.0, 2: 3.0}
ATOMIC_FILLS = (0, 50)  # where a word holds a batch: of scattered single tags each costs an atomic step anyway


def run(repetitions, out):
    words = [str(PROGRAM), "--benchmark_min_time=0.01", f"--benchmark_repetitions={repetitions}",
             "--benchmark_enable_random_interleaving=true", f"--benchmark_out={out}", "--benchmark_out_format=json"]
    with step(f"run {PROGRAM.name}, {repetitions} times"):
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(f"{PROGRAM} ended with status {done.returncode}: {done.stderr[-1000:]}")
    return json.loads(out.read_text(encoding="utf-8"))["benchmarks"]


def best(rows):
    """By name of the benchmark: its best run."""
    found = {}
    for row in rows:
        if row["run_type"] != "iteration":
            continue
        name = row["name"].replace("/real_time", "")
        key = "ns_per_tag" if "ns_per_tag" in row else "cpu_time"
        if name not in found or row[key] < found[name][key]:
            found[name] = row
    return found


def ns_per_tag(found, pool, batch, full, order="same", threads=1):
    row = found.get(f"take_put/{pool}/{order}/batch:{batch}/full:{full}/threads:{threads}")
    return row["ns_per_tag"] if row else None


def take_put_table(found):
    yield "Take a batch, expand it to tag numbers, put it: ns per tag, pool of 4096, by percent full"
    yield "(50: every other tag is free; 75, 90, 97: the free ones are scattered; random order: other tags are put than"
    yield " were taken, with the loop that picks them)"
    yield f"{'':42}" + "".join(f"{full:>8} %" for full in FILLS)
    for batch in BATCHES:
        for pool, title in POOLS.items():
            for order, threads in (("same", 1), ("same", 2), ("random", 1)):
                values = [ns_per_tag(found, pool, batch, full, order, threads) for full in FILLS]
                if not any(values) or (pool == "none" and order == "same"):
                    continue
                how = "random order" if order == "random" else f"{threads} thread{'s' * (threads > 1)}"
                yield (f"batch {batch:2}  {title:18} {how:13}"
                       + "".join(f"{value:10.2f}" if value is not None else f"{'':10}" for value in values))
        yield ""


def retry_table(found):
    yield "A plug of n: tags got by one pass, and by asking again for the rest; ns per plug (single owner | atomic)"
    for depth in DEPTHS:
        for full in FILLS[1:]:
            yield (f"{'depth ' + str(depth) + ', ' + str(full) + ' % full':26}{'n':>4}{'one pass':>10}{'retry':>8}"
                   f"{'gain':>8}{'ns':>14}{'->':>8}{'|':>4}{'ns':>10}{'->':>8}")
            for plug in PLUGS:
                rows = {(pool, how): found[f"retry/{pool}/{how}/depth:{depth}/full:{full}/plug:{plug}"]
                        for pool in ("single", "atomic") for how in ("one_pass", "retry")}
                one, all_passes = rows["single", "one_pass"]["got"], rows["single", "retry"]["got"]
                times = [rows[key]["cpu_time"] for key in rows]
                yield (f"{'':26}{plug:4}{one:10.2f}{all_passes:8.2f}{all_passes / one:7.2f}x{times[0]:14.1f}"
                       f"{times[1]:8.1f}{'|':>4}{times[2]:10.1f}{times[3]:8.1f}")
        yield ""


def goals(found):
    """(what, value, limit, reached) of each goal."""
    for full in (50, 97):
        for order in ("same", "random"):
            value = ns_per_tag(found, "single", 32, full, order)
            loop = ns_per_tag(found, "none", 32, full, order) if order == "random" else 0
            what = f"single owner, batch 32, {full} % full, put in {order} order" + (" (less the loop)" if loop else "")
            yield what, f"{value - loop:.2f} ns", f"<= {SINGLE_NS_MAX:.1f} ns", value - loop <= SINGLE_NS_MAX
    for threads, limit in ATOMIC_RATIO_MIN.items():
        for full in ATOMIC_FILLS:
            plain, own = (ns_per_tag(found, pool, 32, full, threads=threads) for pool in ("plain", "atomic"))
            yield (f"atomic, batch 32, {full} % full, {threads} thread{'s' * (threads > 1)}: times plain single-bit",
                   f"{plain / own:.1f}x", f">= {limit:.0f}x", plain / own >= limit)


def render(found, judged):
    yield ""
    yield from take_put_table(found)
    yield from retry_table(found)
    for what, value, limit, reached in judged:
        yield f"{what:78}{value:>10}{limit:>12}  {'ok' if reached else 'MISSED'}"


def main():
    parser = argparse.ArgumentParser(prog="./dev bench --micro", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=7, help="runs of each benchmark (default 7)")
    parser.add_argument("--no-build", action="store_true", help="mq_micro is up to date")
    given = parser.parse_args()
    if given.repetitions < 1:
        parser.error("--repetitions: at least 1")
    if not given.no_build:
        programs.build("mq_micro")
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / time.strftime("micro-%Y%m%d-%H%M%S.json")
    found = best(run(given.repetitions, path))
    judged = list(goals(found))
    text = "\n".join(render(found, judged)) + "\n"
    path.with_suffix(".txt").write_text(text, encoding="utf-8")
    print(text, end="")
    say(f"load {os.getloadavg()[0]:.1f}; left in {path} and .txt")
    return 0 if all(reached for *_, reached in judged) else 1


if __name__ == "__main__":
    main_guard(main)
