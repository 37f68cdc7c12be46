#!/usr/bin/python3
"""`./dev bench --fairness`: who gets the tags of a shared pool: the kernel's null_blk beside ublkd and its policies.

The same loads by fio (libaio, direct, 4 KiB random reads, scheduler none, heavy: depth 128 in batches of 32) run in one
guest with one CPU, in which one instruction is one virtual nanosecond, on null_blk with shared tags and on ublkd with a
target that delays for the same time. Every ublkd device is first read and compared.

The table is printed and left in build/bench, with all figures as JSON and case c as a picture. Exit status 0: all ran,
and `adaptive` holds every limit.
"""

import argparse
import shlex
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "vm"))

import bench  # noqa: E402
import fairness_figures as figures  # noqa: E402
import fairness_logs  # noqa: E402
import guest  # noqa: E402
import presets  # noqa: E402
import svg  # noqa: E402
from fairness_cases import CASES, chosen, key  # noqa: E402
from progress import Failure, main_guard, say, step  # noqa: E402

KERNEL = "null_blk"
POLICIES = ("none", "equal", "adaptive")
JUDGED = "adaptive"


def analyse(folder, cases):
    """What the guest left in a folder, with the figures of its logs."""
    found = bench.results(folder)
    for name, system in found["systems"].items():
        for case in cases:
            for run in case.runs:
                run_key = key(name, case, run)
                if run_key in system["runs"]:
                    system["runs"][run_key] = analyse_run(folder, run_key, case, run, system["runs"][run_key])
    return found


def analyse_run(folder, run_key, case, run, fio):
    seen = figures.analyse(case, run, lambda job: (folder / f"{run_key}-{job}.log").read_text(encoding="ascii"))
    check_whole(run_key, fio, seen["logged"])
    return {"fio": fio, **seen}


def check_whole(run_key, fio, logged):
    """A log with fewer requests than fio did would make every figure wrong."""
    for job, result in fio.items():
        if logged[job] != result["total_ios"]:
            raise Failure(f"{run_key}: the log of job {job} has {logged[job]} requests, fio did {result['total_ios']}")


def measure(given, cases):
    """Runs the guest; (what it found, whether something failed)."""
    words = ["--systems", KERNEL, *given.policies, "--cases", *(case.name for case in cases)]
    with bench.run_in_guest("fairness_in_guest.py", *words, icount=True) as (folder, broken):
        found = analyse(folder, cases)
    return found, broken or any(system["errors"] for system in found["systems"].values())


def value_of(figure, seen):
    """None where a run is missing."""
    try:
        return figure.value(seen)
    except figures.Missing:
        return None


def judge(found, cases):
    """The lines of the table: {case, title, values by system, bound, verdict}."""
    systems = {name: figures.Seen(name, system["runs"]) for name, system in found["systems"].items()}
    for figure in figures.FIGURES:
        if figure.case not in {case.name for case in cases}:
            continue
        values = {name: value_of(figure, seen) for name, seen in systems.items()}
        bound = figure.bound(values[KERNEL])
        verdict = ""
        if figure.sense and JUDGED in values:
            value = values[JUDGED]
            verdict = "ok" if None not in (value, bound) and figure.held(value, bound) else "MISSED"
        yield {"case": figure.case, "figure": figure.title, "values": values, "sense": figure.sense, "bound": bound,
               "verdict": verdict, "form": figure.form}


def shown(line, case, system):
    value = line["values"][system]
    if value is not None:
        return line["form"].format(value)
    return case.not_for.get(system, "FAILED")


def render(found, cases):
    systems = list(found["systems"])
    by_name = {case.name: case for case in cases}
    lines = [("case", "figure", *systems, "limit", "")]
    last = ""
    for line in found["table"]:
        case = by_name[line["case"]]
        if case.name != last:
            lines.append((case.name, case.title, *[""] * len(systems), "", ""))
        last = case.name
        limit = f"{line['sense']} {line['form'].format(line['bound'])}" if line["bound"] is not None else ""
        lines.append(("", f"  {line['figure']}", *(shown(line, case, name) for name in systems), limit,
                      line["verdict"]))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    text = ["  ".join(cell.ljust(width) if column < 2 or column == len(widths) - 1 else cell.rjust(width)
                      for column, (cell, width) in enumerate(zip(line, widths))).rstrip() for line in lines]
    text.insert(1, "-" * max(map(len, text)))
    failures = [f"{name}, pool {pool}: FAILED: {error}" for name, system in found["systems"].items()
                for pool, error in system["errors"].items()]
    return "\n".join(["", *text, "", *notes(found), *failures]) + "\n"


def notes(found):
    yield (f"kernel {found['kernel']}; one CPU, 1 instruction = 1 virtual ns; times and rates are virtual; limits are "
           f"of {JUDGED}")
    yield "; ".join(f"{name} {version}" for name, version in found["versions"].items())
    yield ("pool of 32 tags, 1 ms a request (h: 4 tags; i: 100 ms and 0.1 ms); fio libaio, 4 KiB random reads, "
           "scheduler none; 128: in batches of 32")
    yield "delay lateness: latency over delay, less 1 ms, less the latency over null itself under the same load"
    yield f"made by: {found['command']}   {found['date']}"


def plot(found):
    """Case c over time, None when it was not measured."""
    curves = {}
    for name, system in found["systems"].items():
        run = system["runs"].get(f"{name}-c-main")
        if run:
            label = "null_blk (kernel)" if name == KERNEL else f"ublkd, {name}"
            curves[label] = [((number + 0.5) * fairness_logs.WINDOW_MS / 1000, rate)
                             for number, rate in enumerate(run["jobs"]["A"]["series_iops"])]
    if not curves:
        return None
    return svg.chart("Case c: B, C and D read once and go idle, A reads at depth 128",
                     "seconds since A's first request (virtual)", "IOPS of A, windows of 100 ms", curves)


def arguments():
    def words(known):
        def split(text):
            names = [name for name in text.split(",") if name]
            unknown = sorted(set(names) - set(known))
            if unknown:
                raise argparse.ArgumentTypeError(f"no {', '.join(unknown)} in {', '.join(known)}")
            return names
        return split

    parser = argparse.ArgumentParser(prog="./dev bench --fairness", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=words([case.name for case in CASES]), default=[], metavar="A,B",
                        help="only these, and a: " + ", ".join(f"{case.name} ({case.title})" for case in CASES))
    parser.add_argument("--policies", type=words(POLICIES), default=list(POLICIES), metavar="A,B",
                        help=f"of ublkd: {', '.join(POLICIES)} (default all); limits are judged for {JUDGED} only")
    parser.add_argument("--no-build", action="store_true", help="build/release is up to date")
    return parser.parse_args()


def main():
    given = arguments()
    fairness_logs.self_check()
    signal.signal(signal.SIGTERM, guest.stop)
    if not given.no_build:
        presets.build("release")
    cases = chosen(given.cases)
    with step(f"measure {len(cases)} cases in a guest with kernel {bench.KERNEL}"):
        found, broken = measure(given, cases)
    versions = bench.versions()
    found.update(versions={name: versions[name] for name in ("ublkd", "qemu")} | {"fio": bench.first_line("fio", "-v")},
                 date=time.strftime("%Y-%m-%dT%H:%M:%S"),
                 command=f"./dev bench --fairness {shlex.join(sys.argv[1:])}".strip())
    found["table"] = list(judge(found, cases))
    path = bench.leave("fairness-", found, render(found, cases))
    picture = plot(found)
    if picture:
        path.with_suffix(".svg").write_text(picture, encoding="utf-8")
    say(f"left in {path}.txt, .json{' and .svg' if picture else ''}")
    return 1 if broken or any(line["verdict"] == "MISSED" for line in found["table"]) else 0


if __name__ == "__main__":
    main_guard(main)
