"""What the fairness bench shows and demands: figures of one system's runs, and the limits issue 3 sets for `adaptive`.

A figure is a function of `Seen`: all runs of null_blk, or of ublkd with one policy. Rates are completions per virtual
second while all measured loads of a run were under way, after its ramp.
"""

from dataclasses import dataclass
from typing import Callable

import fairness_logs as logs
from fairness_cases import CASES, MS, key
from progress import Failure

AFTER_START_MS = 20   # windows count from here after a load's first submission
SERIES = ("c", "c2")  # cases whose windows are kept


class Missing(Exception):
    """A run that a figure needs is not there."""


def analyse_job(log, load, begin_ms, end_ms, with_series):
    """Figures of one job in [begin, end), and of its windows over all its time."""
    seen = log.between(begin_ms, end_ms)
    if not seen.at_ms:
        raise Failure(f"job {load.name}: no request between {begin_ms} and {end_ms} ms")
    lat_us = [lat / 1000 for lat in seen.lat_ns]
    out = {"requests": len(seen.at_ms), "iops": len(seen.at_ms) * 1000 / (end_ms - begin_ms),
           "gap_ms": logs.longest_gap_ms(seen.at_ms, begin_ms, end_ms), "max_us": max(lat_us),
           **{f"p{percent}_us": logs.percentile(lat_us, percent) for percent in (50, 99, 99.9)}}
    if load.measured:
        first_ms, last_ms = log.first_submit_ms, log.last_submit_ms
        counts = logs.per_ms(log.at_ms, int(first_ms) + AFTER_START_MS + 1, int(last_ms))
        out["slowest_window_iops"] = min(logs.windows(counts, 1), default=None)
        if with_series:
            counts = logs.per_ms(log.at_ms, int(first_ms), int(last_ms))
            out["series_iops"] = logs.windows(counts, logs.WINDOW_MS)
    return out


def analyse(case, run, read_log):
    """One run: {"seconds", "jobs": {name: figures}}; `read_log(job)` gives a log's text."""
    found = {load.name: logs.parse(read_log(load.name)) for load in run.loads}
    steady = [found[load.name] for load in run.loads if load.measured]
    if not all(log.at_ms for log in found.values()):
        raise Failure(f"case {case.name}, {run.name}: a log of fio is empty")
    begin_ms = int(max(log.first_submit_ms for log in steady) + run.ramp_s * 1000)
    end_ms = int(min(log.last_submit_ms for log in steady))
    jobs = {load.name: analyse_job(found[load.name], load, *(
        (begin_ms, end_ms) if load.measured else (found[load.name].at_ms[0], found[load.name].at_ms[-1] + 1)),
        case.name in SERIES) for load in run.loads}
    start_ms = min(log.first_submit_ms for log in found.values())
    for name, log in found.items():
        jobs[name]["begins_at_ms"] = log.first_submit_ms - start_ms
    return {"seconds": (end_ms - begin_ms) / 1000, "logged": {name: len(log.at_ms) for name, log in found.items()},
            "jobs": jobs}


class Seen:
    """A system's analysed runs."""

    def __init__(self, system, runs):
        self.system = system
        self.runs = runs

    def jobs(self, case, run="main"):
        by_name = {one.name: one for one in CASES}
        wanted = next(one for one in by_name[case].runs if one.name == run)
        name = key(self.system, by_name[case], wanted)
        if name not in self.runs:
            raise Missing(name)
        return self.runs[name]["jobs"]

    def get(self, case, job, what="iops", run="main"):
        return self.jobs(case, run)[job][what]

    def all(self, case, what="iops", run="main"):
        return [job[what] for job in self.jobs(case, run).values()]

    def total(self, case):
        return sum(self.all(case))

    @property
    def alone(self):
        return self.get("a", "A")

    def mean_of_first(self, case, seconds):
        windows = self.get(case, "A", "series_iops")[:round(seconds * 1000 / logs.WINDOW_MS)]
        return sum(windows) / len(windows)

    def slowest_window(self, case):
        return self.get(case, "A", "slowest_window_iops") / self.alone

    def part_of_solo(self, case, job):
        return self.get(case, job) / self.get(case, job, run="solo")

    def p99_times_solo(self, case, job):
        return self.get(case, job, "p99_us") / self.get(case, job, "p99_us", run="solo")

    def lateness_us(self, run, what):
        """Latency over `delay` less its time and the latency over null itself under the same load.

        "Most" has the guest's own interruptions in it, of either run.
        """
        def pooled(name):
            return max(self.all("late", what, name)) if what == "max_us" else \
                sum(self.all("late", what, name)) / len(self.jobs("late", name))
        return pooled(run) - MS / 1000 - pooled(f"{run}_base")


def spread(values):
    """The largest distance from the mean, as a part of it."""
    mean = sum(values) / len(values)
    return max(abs(value - mean) for value in values) / mean


def weight_error(seen):
    """Case f: the largest error of a device's share of the IOPS, relative to its weight's."""
    case = next(one for one in CASES if one.name == "f")
    total, weights = seen.total("f"), sum(tenant.weight for tenant in case.layout.tenants)
    return max(abs(seen.get("f", tenant.name) / total * weights / tenant.weight - 1) for tenant in case.layout.tenants)


@dataclass(frozen=True)
class Figure:
    """A line of the table. `sense` ">=" or "<=": the limit for `adaptive`; `of_kernel`: a multiple of null_blk's."""
    case: str
    title: str
    value: Callable
    form: str
    sense: str = ""
    limit: float = 0
    of_kernel: bool = False

    def bound(self, kernel):
        """The limit as a number, None where there is none to hold it to."""
        if not self.sense or (self.of_kernel and kernel is None):
            return None
        return self.limit * kernel if self.of_kernel else self.limit

    def held(self, value, bound):
        return value >= bound if self.sense == ">=" else value <= bound


IOPS, TIMES, PARTS, US, MSEC = "{:,.0f}", "{:.3f}", "{:.2%}", "{:,.1f} us", "{:,.0f} ms"

FIGURES = (
    Figure("a", "IOPS of A", lambda s: s.alone, IOPS, ">=", 0.97, of_kernel=True),
    Figure("b", "IOPS, least of the four", lambda s: min(s.all("b")), IOPS),
    Figure("b", "Jain's index", lambda s: logs.jain(s.all("b")), "{:.4f}", ">=", 0.999),
    Figure("b", "total / a", lambda s: s.total("b") / s.alone, TIMES, ">=", 0.98),
    Figure("c", "IOPS of A, first 5 s", lambda s: s.mean_of_first("c", 5), IOPS),
    Figure("c", "A's slowest 100 ms / a", lambda s: s.slowest_window("c"), TIMES, ">=", 0.95),
    Figure("c2", "IOPS of A", lambda s: s.get("c2", "A"), IOPS),
    Figure("c2", "A / a", lambda s: s.get("c2", "A") / s.alone, TIMES, ">=", 0.95),
    Figure("c2", "A's slowest 100 ms / a", lambda s: s.slowest_window("c2"), TIMES),
    Figure("d", "IOPS of A", lambda s: s.get("d", "A"), IOPS),
    Figure("d", "IOPS of B", lambda s: s.get("d", "B"), IOPS),
    Figure("d", "total / a", lambda s: s.total("d") / s.alone, TIMES, ">=", 0.95),
    Figure("d", "B / B alone", lambda s: s.part_of_solo("d", "B"), TIMES, ">=", 0.95),
    Figure("d", "p99 of B", lambda s: s.get("d", "B", "p99_us"), US),
    Figure("d", "p99 of B / alone", lambda s: s.p99_times_solo("d", "B"), TIMES, "<=", 1.3),
    Figure("e", "A / a", lambda s: s.get("e", "A") / s.alone, TIMES, ">=", 0.93),
    Figure("e", "p99 of B", lambda s: s.get("e", "B", "p99_us"), US),
    Figure("e", "p99 of B / alone", lambda s: s.p99_times_solo("e", "B"), TIMES, "<=", 1.3),
    Figure("f", "IOPS, total", lambda s: s.total("f"), IOPS),
    Figure("f", "share against weight, error", weight_error, PARTS, "<=", 0.03),
    Figure("g", "A (depth 4) / A alone", lambda s: s.part_of_solo("g", "A"), TIMES, ">=", 0.97),
    Figure("g", "B, C, D: from their mean", lambda s: spread([s.get("g", name) for name in "BCD"]), PARTS, "<=", 0.03),
    Figure("g", "total / a", lambda s: s.total("g") / s.alone, TIMES, ">=", 0.95),
    Figure("h", "IOPS, total", lambda s: s.total("h"), IOPS),
    Figure("h", "longest without a completion", lambda s: max(s.all("h", "gap_ms")), MSEC, "<=", 100),
    Figure("h", "Jain's index", lambda s: logs.jain(s.all("h")), "{:.4f}", ">=", 0.99),
    Figure("i", "IOPS of A", lambda s: s.get("i", "A"), IOPS),
    Figure("i", "B / B alone", lambda s: s.part_of_solo("i", "B"), TIMES, ">=", 0.9),
    Figure("late", "one request: p50", lambda s: s.lateness_us("one", "p50_us"), US),
    Figure("late", "one request: p99.9", lambda s: s.lateness_us("one", "p99.9_us"), US, "<=", 20),
    Figure("late", "one request: most", lambda s: s.lateness_us("one", "max_us"), US),
    Figure("late", "32 at once: p50", lambda s: s.lateness_us("deep", "p50_us"), US),
    Figure("late", "32 at once: p99.9", lambda s: s.lateness_us("deep", "p99.9_us"), US, "<=", 20),
    Figure("late", "32 at once: most", lambda s: s.lateness_us("deep", "max_us"), US),
    Figure("late", "four at odd times: p50", lambda s: s.lateness_us("odd", "p50_us"), US, "<=", 20),
)
