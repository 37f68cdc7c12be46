"""fio for tests: single runs, and a guard that watches a device while the test does something to another one."""

import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path

from machine import run, wait_until

# Guest time. Under emulation on a shared machine a virtual CPU may pause for a second by itself.
STALL_MAX_S = 5.0
RUNNING_TIMEOUT_S = 20
END_TIMEOUT_S = 20


def words_of(path, **options):
    """fio's command line: keys are fio's options; True alone is a flag. Direct 4 KiB libaio unless told otherwise."""
    chosen = {"name": "job", "filename": path, "ioengine": "libaio", "direct": 1, "bs": "4k", "thread": True, **options}
    return ["fio", *(f"--{key}" if value is True else f"--{key}={value}" for key, value in chosen.items())]


class Report:
    """Where a fio leaves its JSON: a file, because it loses part of a long one when its pipe is full."""

    def __init__(self):
        handle, self.path = tempfile.mkstemp(prefix="fio-", suffix=".json")
        os.close(handle)
        self.words = ["--output-format=json", f"--output={self.path}"]

    def text(self):
        return Path(self.path).read_text(encoding="utf-8")

    def jobs(self):
        """fio's jobs; warnings may stand before the JSON."""
        text = self.text()
        return json.loads(text[text.index("{"):])["jobs"]


def fio(path, timeout_s=60, check=True, **options):
    """One run. Returns the job object of fio's JSON; a failure of fio fails the test unless check=False, which
    returns {"error": ...} with fio's words in "text"."""
    report = Report()
    done = run(*words_of(path, **options), *report.words, check=False, timeout_s=timeout_s)
    assert not check or done.returncode == 0, f"fio: status {done.returncode}\n{report.text()}{done.stderr}"
    job = report.jobs()[0]
    job["text"] = done.stderr
    return job


def fio_verify(path, **options):
    """Random writes with checksum, all read back. Options as fio's, by default 1 MiB in 4 KiB blocks, depth 16."""
    return fio(path, **{"rw": "randwrite", "verify": "crc32c", "verify_fatal": 1, "size": "1m", "iodepth": 16,
                        **options})


def worst_s(job):
    """The longest any request took."""
    return max(job[side]["clat_ns"]["max"] for side in ("read", "write", "trim")) / 1e9


class Guard:
    """fio that writes and verifies a device while something happens to its neighbours, which it must not notice:

        with Guard(d.path("guarded")):
            ...

    Leaving checks that it ran to the end, saw no error and no request longer than stall_max_s. The device must keep
    what is written (a file target, not null). It is slow on purpose, so that it leaves the CPU to the test.
    """

    def __init__(self, path, stall_max_s=STALL_MAX_S, **options):
        self.stall_max_s = stall_max_s
        self.path = path
        self.words = words_of(path, **{
            "rw": "randwrite", "verify": "crc32c", "verify_fatal": 1, "verify_backlog": 16, "iodepth": 4, "size": "4m",
            "rate_iops": "200,200", "time_based": True, "runtime": 600, **options})
        self.report = Report()
        self.process = None
        self.job = None

    def __enter__(self):
        name = Path(self.path).name
        before = done_requests(name)
        self.process = subprocess.Popen([*self.words, *self.report.words], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        start_new_session=True)
        try:
            wait_until(lambda: self.process.poll() is not None or done_requests(name) > before + 8, RUNNING_TIMEOUT_S,
                       what="fio of the guard runs")
        except BaseException:
            self.end()
            raise
        return self

    def end(self):
        """Ends fio; returns (status, stdout, stderr)."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            out, err = self.process.communicate(timeout=END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise AssertionError(f"fio of the guard on {self.path} does not end: a request hangs") from None
        return self.process.returncode, out, err

    def __exit__(self, kind, *_):
        early = self.process.poll() is not None
        _, out, err = self.end()
        if kind is not None:
            return
        out += self.report.text()
        assert not early, f"fio of the guard on {self.path} ended by itself:\n{out}{err}"
        self.job = self.report.jobs()[0]
        assert self.job["error"] == 0, f"the guard on {self.path} saw an error:\n{out}{err}"
        assert self.job["write"]["total_ios"] > 0, f"the guard on {self.path} wrote nothing"
        assert worst_s(self.job) <= self.stall_max_s, f"the guard on {self.path} stalled for {worst_s(self.job):.1f} s"


def done_requests(disk):
    """Reads and writes the disk has completed."""
    fields = Path(f"/sys/block/{disk}/stat").read_text().split()
    return int(fields[0]) + int(fields[4])
