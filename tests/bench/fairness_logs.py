"""What fio's latency logs say: rates, percentiles, windows, gaps. Pure; `self_check` holds the sums to small examples.

A log has a line for each request, in order of completion: `time ms, latency ns, ...`; times are the guest's clock, one
for all jobs.
"""

import math
from dataclasses import dataclass
from itertools import accumulate

from progress import Failure

WINDOW_MS = 100


@dataclass(frozen=True)
class Log:
    """Completions of one job: `at_ms` ascending, `lat_ns` beside it."""
    at_ms: list
    lat_ns: list

    @property
    def first_submit_ms(self):
        return self.at_ms[0] - self.lat_ns[0] / 1e6

    @property
    def last_submit_ms(self):
        """Of the last requests: from here on the job only waits for its end."""
        return max(at - lat / 1e6 for at, lat in zip(self.at_ms[-1024:], self.lat_ns[-1024:]))

    def between(self, begin_ms, end_ms):
        """What completed in [begin, end)."""
        pairs = [(at, lat) for at, lat in zip(self.at_ms, self.lat_ns) if begin_ms <= at < end_ms]
        return Log([at for at, _ in pairs], [lat for _, lat in pairs])


def parse(text):
    at_ms, lat_ns = [], []
    for line in text.splitlines():
        at, lat, _ = line.split(",", 2)
        at_ms.append(int(at))
        lat_ns.append(int(lat))
    order = sorted(range(len(at_ms)), key=at_ms.__getitem__)  # one batch may be logged across a millisecond
    return Log([at_ms[i] for i in order], [lat_ns[i] for i in order])


def percentile(values, percent):
    """The smallest value that `percent` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(round(len(ordered) * percent / 100, 6)) - 1)]


def jain(values):
    """Jain's index: 1 when all are equal, 1/n when one has it all."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 0.0


def per_ms(at_ms, begin_ms, end_ms):
    """Completions in each millisecond of [begin, end)."""
    counts = [0] * max(0, end_ms - begin_ms)
    for at in at_ms:
        if begin_ms <= at < end_ms:
            counts[at - begin_ms] += 1
    return counts


def windows(counts, step_ms):
    """Rates per second of the windows of WINDOW_MS that begin every `step_ms`, none beyond the end."""
    sums = [0, *accumulate(counts)]
    return [(sums[i + WINDOW_MS] - sums[i]) * 1000 / WINDOW_MS for i in range(0, len(counts) - WINDOW_MS + 1, step_ms)]


def longest_gap_ms(at_ms, begin_ms, end_ms):
    """Longest time within [begin, end) without a completion."""
    marks = [begin_ms, *(at for at in at_ms if begin_ms <= at < end_ms), end_ms]
    return max(after - before for before, after in zip(marks, marks[1:]))


def self_check():
    """The figures above on examples with known answers; a wrong sum must not judge anything."""
    log = parse("12, 2000000, 0, 4096, 0, 0\n10, 1000000, 0, 4096, 0, 0\n")
    known = (
        (jain([5, 5, 5, 5]), 1.0), (jain([1, 0, 0, 0]), 0.25), (jain([0, 0]), 0.0),
        (percentile(range(1, 101), 99), 99), (percentile([7], 99), 7), (percentile(range(1, 1001), 99.9), 999),
        (log.at_ms, [10, 12]), (log.first_submit_ms, 9.0), (log.last_submit_ms, 10.0),
        (log.between(10, 12).lat_ns, [1000000]), (per_ms([5, 5, 7, 9], 5, 8), [2, 0, 1]),
        (windows([1] * 100 + [3] * 100, 100), [1000.0, 3000.0]), (len(windows([1] * 150, 1)), 51),
        (windows([1] * 99, 1), []), (longest_gap_ms([10, 40, 50], 5, 60), 30), (longest_gap_ms([], 5, 60), 55))
    for got, want in known:
        if got != want:
            raise Failure(f"fairness_logs: self-check got {got}, want {want}")
