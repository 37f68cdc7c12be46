"""Sharing of tags as the user sees it: `ublkctl tags`, `ublkctl tune`, timeouts, and fairness on real devices."""

import errno
import os
import signal
import subprocess
import time

import pytest

from disk import Disk
from load import END_TIMEOUT_S, RUNNING_TIMEOUT_S, Report
from machine import wait_until
from ublkd import UBLKCTL, ApiError, file_device, null_device

ROUNDS_MAX = 3  # of a measurement that the machine may have disturbed
SETTLE_S = 0.3  # after a change, for what was granted before it


def slow_device(name, delay, **more):
    target = {"type": "delay", "time": delay, "target": {"type": "null", "size": "64MiB"}}
    return {"name": name, "target": target, **more}


class Load:
    """fio on several devices until the `with` block ends; each job is named after its device.

        with Load(d, a={"iodepth": 32}, b={"iodepth": 4}):
    """

    def __init__(self, d, common=None, **devices):
        options = {"ioengine": "libaio", "direct": 1, "bs": "4k", "rw": "randread", "time_based": None, "runtime": 600,
                   "thread": None, **(common or {})}
        self.report = Report()
        self.words = ["fio", *self.report.words]
        for name, own in devices.items():
            one = {"name": name, "filename": d.path(name), **options, **own}
            self.words += [f"--{key}" if value is None else f"--{key}={value}" for key, value in one.items()]
        self.d, self.names, self.process, self.jobs = d, list(devices), None, {}

    def __enter__(self):
        before = taken(self.d)
        self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            wait_until(self.all_run(before), RUNNING_TIMEOUT_S, what="fio runs on every device")
        except BaseException:
            self.end()
            raise
        return self

    def all_run(self, before):
        def so():
            now = taken(self.d)
            return self.process.poll() is not None or all(now[name] > before[name] + 4 for name in self.names)
        return so

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.communicate(timeout=END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise AssertionError("fio does not end: a request hangs") from None

    def __exit__(self, kind, *_):
        early = self.process.poll() is not None
        out, err = self.end()
        if kind is None:
            assert not early, f"fio ended by itself:\n{out}{err}"
            self.jobs = self.report.jobs()
            assert all(job["error"] == 0 for job in self.jobs), f"{out}{err}"


def rows(answer, name="s"):
    """The device rows of a set, with their pool: [(pool, row)]."""
    [tag_set] = [one for one in answer["tag_sets"] if one["name"] == name]
    return [(pool, row) for pool in tag_set["pools"] for row in pool["devices"]]


def sums(answer, key):
    """A counter by device, over all pools and sets."""
    out = {}
    for tag_set in answer["tag_sets"]:
        for pool in tag_set["pools"]:
            for row in pool["devices"]:
                out[row["name"]] = out.get(row["name"], 0) + row[key]
    return out


def taken(d):
    return sums(d.call("tags"), "taken")


def rates(d, seconds=1.0):
    """Completed requests a second, by device."""
    first = d.call("tags")
    time.sleep(seconds)
    last = d.call("tags")
    before, after = sums(first, "put"), sums(last, "put")
    return {name: (after[name] - before[name]) / (last["at_ns"] - first["at_ns"]) * 1e9 for name in after}


def check_sound(answer):
    """What holds in every snapshot."""
    for tag_set in answer["tag_sets"]:
        for pool in tag_set["pools"]:
            assert sum(row["active"] for row in pool["devices"]) == pool["active"] == pool["depth"] - pool["free"]
            assert pool["free"] >= 0
            for row in pool["devices"]:
                assert row["taken"] - row["put"] == row["active"] >= 0
                assert row["borrowed"] == pytest.approx(max(0, row["active"] - row["share"]), abs=0.01)
            if tag_set["policy"] == "adaptive":
                check_shares(pool)


def check_shares(pool):
    """By weight among the devices in use; an idle one is told what it would have."""
    in_use = sum(row["weight"] for row in pool["devices"] if row["state"] == "active")
    assert in_use == pool["weight_active"]
    for row in pool["devices"]:
        idle = row["weight"] if row["state"] == "idle" else 0
        assert row["share"] == pytest.approx(pool["depth"] * row["weight"] / (in_use + idle), abs=0.01)


def shares_seen(d, shares):
    """A device that the machine holds up may be idle for a moment; then the others have more."""
    wait_until(lambda: [row["share"] for _, row in rows(d.call("tags"))] == shares, what=f"shares of {shares}")


def wait_idle(d):
    def idle():
        answer = d.call("tags")
        check_sound(answer)
        return all(pool["free"] == pool["depth"] and not pool["waiting"] and not pool["devices_active"]
                   for one in answer["tag_sets"] for pool in one["pools"])
    wait_until(idle, what="all tags free and every device idle")


def in_rounds(measure, good):
    """The first good result of a few; fails with all of them."""
    seen = []
    for _ in range(ROUNDS_MAX):
        seen.append(measure())
        if good(seen[-1]):
            return seen[-1]
    raise AssertionError(f"not good in {ROUNDS_MAX} rounds: {seen}")


THREE = {"tag_sets": {"s": {"depth": 16}}, "devices": [slow_device(name, "5ms", tag_set="s") for name in "abc"]}


def test_tags_and_tune_under_load(daemon):
    d = daemon(THREE)
    wait_idle(d)
    with Load(d, **{name: {"iodepth": 32} for name in "abc"}):
        for _ in range(100):
            check_sound(d.call("tags", tag_set="s"))
        wait_until(lambda: (d.call("tags")["tag_sets"][0]["jain"] or 0) > 0.98, what="Jain's index near 1")
        shares_seen(d, [5.333] * 3)
        wait_until(lambda: d.device("a")["share"] == 5.333, what="list says the same")
        assert {row["name"] for _, row in rows(d.ctl_json("tags", "s"))} == set("abc")

        assert d.ctl("tune", "device", "c", "--weight", "3").stdout == "device c: weight 3\n"
        def follows():
            time.sleep(SETTLE_S)
            return rates(d)
        in_rounds(follows, lambda r: abs(r["c"] / r["a"] - 3) < 0.3 and abs(r["b"] / r["a"] - 1) < 0.1)
        shares_seen(d, [3.2, 3.2, 9.6])

        d.ctl("tune", "tag-set", "s", "--policy", "equal")
        in_rounds(follows, lambda r: r["c"] / r["a"] < 1.5)
        for _ in range(20):
            answer = d.call("tags")
            check_sound(answer)
            assert all(row["share"] == 6 and row["active"] <= 6 for _, row in rows(answer))
        d.ctl("tune", "tag-set", "s", "--policy", "adaptive", "--idle-after", "1s")
        assert d.call("tags")["tag_sets"][0]["idle_after_ns"] == 1e9
    wait_idle(d)
    assert taken(d) == sums(d.call("tags"), "put")


def test_refused_changes_change_nothing(daemon, tmp_path):
    d = daemon({**THREE, "devices": [null_device("a", tag_set="s"), file_device("bad", tmp_path / "missing")]})
    before = d.call("tags")["tag_sets"]
    for kind, message, change in (
            ("not_found", "there are s", {"tag_set": "x", "change": {"policy": "none"}}),
            ("not_found", "there are a, bad", {"device": "x", "change": {"weight": 2}}),
            ("busy", "failed", {"device": "bad", "change": {"weight": 2}}),
            ("invalid", "did you mean", {"tag_set": "s", "change": {"policy": "non"}}),
            ("invalid", "grace", {"tag_set": "s", "change": {"policy": "none", "grace": "1ns"}}),
            ("invalid", "depth", {"tag_set": "s", "change": {"policy": "none", "depth": 3}}),
            ("invalid", "1000", {"device": "a", "change": {"weight": 1001}})):
        with pytest.raises(ApiError, match=message) as refused:
            d.call("tune", **change)
        assert refused.value.kind == kind
    for status, *words in ((1, "tag-set", "x", "--policy", "none"), (2, "tag-set", "s", "--policy", "non"),
                           (2, "device", "a", "--weight", "0"), (2, "device", "a")):
        done = d.ctl("tune", *words, check=False)
        assert done.returncode == status and done.stderr, words
    assert d.ctl("tags", "x", check=False).returncode == 1
    assert d.call("tags")["tag_sets"] == before


def test_watch_prints_until_interrupted_and_does_not_disturb(daemon, tmp_path):
    d = daemon(THREE)
    out = tmp_path / "out"
    with Load(d, **{name: {"iodepth": 32} for name in "abc"}):
        def with_and_without():
            without = sum(rates(d).values())
            with open(out, "wb") as file:
                watch = subprocess.Popen([UBLKCTL, "--socket", d.socket, "tags", "--watch=0.1"], stdout=file,
                                         stdin=subprocess.DEVNULL)
            watched = sum(rates(d).values())
            wait_until(lambda: out.read_text().count("tag set s") > 3, what="watch prints")
            watch.send_signal(signal.SIGINT)
            assert watch.wait(10) == 0
            return watched / without
        in_rounds(with_and_without, lambda ratio: ratio > 0.85)
    text = out.read_text()
    assert "\x1b" not in text
    block = text.split("\n\n")[2]
    assert block.startswith("tag set s: policy adaptive, scope queue, 16 tags")
    assert "TAKEN/s" in block and len(block.splitlines()) == 5


# --- timeouts ---------------------------------------------------------------------------------

IO_ERROR = "I/O error|ublkb"


def error_of(work, *args):
    try:
        work(*args)
    except OSError as error:
        return error.errno
    return 0


@pytest.mark.kernel_log(IO_ERROR)
def test_timeout_ends_the_request_and_nothing_else(daemon, guarded):
    stuck = {"type": "delay", "write": "3600s", "target": {"type": "null", "size": "1MiB"}}
    d = daemon({"tag_sets": {"s": {"depth": 8}}, "devices": [
        {"name": "stuck", "tag_set": "s", "timeout": "200ms", "target": stuck}]})
    with guarded(d, "s"), Disk(d.path("stuck")) as disk:
        begin_s = time.monotonic()
        assert error_of(disk.write, 0, bytes(4096)) == errno.EIO
        assert 0.2 <= time.monotonic() - begin_s < 5
        assert sums(d.call("tags"), "timeouts") == {"stuck": 1, "guarded": 0}
        assert "1 of tag set s, queue 0; their targets are asked to end them" in d.log_text()
        disk.read(0, 4096)
    wait_idle(d)


@pytest.mark.kernel_log(IO_ERROR)
def test_timeout_counts_while_a_device_starts(daemon):
    """The kernel reads the partition table of a backend that never answers."""
    d = daemon()
    device = d.add({"name": "stuck", "timeout": "50ms",
                    "target": {"type": "delay", "read": "3600s", "target": {"type": "null", "size": "1MiB"}}})
    assert device["state"] == "live"
    wait_until(lambda: sums(d.call("tags"), "timeouts")["stuck"] > 0, what="a read is ended")


# --- fairness ---------------------------------------------------------------------------------

def test_A48_a_device_that_reads_once_a_second_costs_the_others_little(daemon, count):
    seconds = count("A48 seconds", short=3, full=60)
    d = daemon({"tag_sets": {"s": {"depth": 32}}, "devices": [slow_device(n, "10ms", tag_set="s") for n in "ab"]})

    def read_s(disk):
        begin_s = time.monotonic()
        disk.read(0, 4096)
        return time.monotonic() - begin_s

    def measure():
        with Disk(d.path("b")) as b:
            solo_b = [read_s(b) for _ in range(20)]
            with Load(d, a={"iodepth": 64}):
                solo_a = rates(d)["a"]
                first, with_b = d.call("tags"), []
                for _ in range(seconds):
                    with_b.append(read_s(b))
                    time.sleep(1)
                last = d.call("tags")
        rate = (sums(last, "put")["a"] - sums(first, "put")["a"]) / (last["at_ns"] - first["at_ns"]) * 1e9
        return rate / solo_a, p99(with_b) / p99(solo_b)

    in_rounds(measure, lambda r: r[0] >= 0.8 and r[1] < 5)


def p99(times):
    return sorted(times)[int(len(times) * 0.99)]


def test_A49_few_tags_for_many_devices(daemon, count):
    """No device goes without a completion for as many completions of the pool as make a second."""
    seconds = count("A49 seconds", short=3, full=60)
    names = [f"d{i}" for i in range(8)]
    d = daemon({"tag_sets": {"s": {"depth": 4}}, "devices": [slow_device(n, "5ms", tag_set="s") for n in names]})
    with Load(d, **{name: {"iodepth": 16} for name in names}):
        begin = first = d.call("tags")
        moved = {name: 0 for name in names}  # completions of all when its own last changed
        gap = 0
        while first["at_ns"] - begin["at_ns"] < seconds * 1e9:
            time.sleep(0.05)
            now = d.call("tags")
            before, after = sums(first, "put"), sums(now, "put")
            total = sum(after.values()) - sum(sums(begin, "put").values())
            for name in names:
                gap = max(gap, total - moved[name])
                if after[name] > before[name]:
                    moved[name] = total
            first = now
    done = {name: count_ - sums(begin, "put")[name] for name, count_ in sums(first, "put").items()}
    assert min(done.values()) >= 0.05 * sum(done.values()), done
    assert gap <= sum(done.values()) / seconds, f"{gap} completions of {done} passed a device by"


@pytest.mark.limit(400)  # for --full, where it is five times that
def test_A51_no_wake_up_is_lost_on_a_pool_of_one(daemon, count):
    seconds = count("A51 seconds", short=3, full=1800)
    d = daemon({"tag_sets": {"s": {"hw_queues": 2, "depth": 1, "scope": "set"}},
                "devices": [null_device(n, tag_set="s") for n in "ab"]})
    load = Load(d, {"rw": "randrw", "iodepth": 1, "numjobs": 20}, a={}, b={})
    with load:
        time.sleep(seconds)
    assert len(load.jobs) == 40
    for job in load.jobs:
        assert job["read"]["total_ios"] + job["write"]["total_ios"] > 0
        assert max(job[side]["clat_ns"]["max"] for side in ("read", "write")) < 5e9, "a job without progress for 5 s"
    wait_idle(d)


def test_A52_slow_requests_do_not_hold_what_another_needs(daemon):
    """B keeps its rate on shared tags, where it needs less than its share of 16, as it does on tags of its own:
    measured once a few of A's requests have ended, and side by side, so that the machine does the same to both.
    The grace is longer than a slow guest holds up B between two requests: then its share would not be kept for it."""
    d = daemon({"tag_sets": {"s": {"depth": 32, "grace": "500ms"}}, "devices": [
        slow_device("a", "100ms", tag_set="s"), slow_device("b", "5ms", tag_set="s"), slow_device("own", "5ms")]})

    def waited(first, last, name):
        return (sums(last, "waited_ns")[name] - sums(first, "waited_ns")[name]) / (last["at_ns"] - first["at_ns"])

    def measure():
        with Load(d, own={"iodepth": 8}, b={"iodepth": 8}):
            solo = rates(d)
            with Load(d, a={"iodepth": 64}):
                time.sleep(2)
                first = d.call("tags")
                both = rates(d, 2)
                last = d.call("tags")
        return both["b"] / both["own"] * solo["own"] / solo["b"], waited(first, last, "b"), waited(first, last, "own")
    in_rounds(measure, lambda r: r[0] >= 0.9 and max(r[1:]) < 0.1)
