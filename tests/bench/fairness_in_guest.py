#!/usr/bin/python3
"""The part of `./dev bench --fairness` that runs inside the guest: makes every pool, checks what its devices read as,
runs fio on them, and leaves fio's results and logs in a folder. Needs root and a kernel with ublk.

  results.json   {"kernel", "systems": {system: {"error": {layout: text}, "runs": {key: fio's figures by job}}}}
  KEY-JOB.log    fio's latency log of a job
"""

import argparse
import json
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "vm"))

import content  # noqa: E402
import servers  # noqa: E402
from fairness_cases import chosen, key  # noqa: E402
from progress import Failure, main_guard  # noqa: E402

KERNEL = "null_blk"        # the system that is the kernel's own; others are policies of ublkd
IDLE_S = 15                # before each run: the kernel takes 5 to 10 s to see that a device went idle
CHECKED_BYTES = 2 << 20    # read in order, and so many single blocks:
CHECKED_READS = 256
SLOTS = 128
# Reaping up to 32, client and null_blk fall into one of several steps by chance: 27.2k to 29.8k for case a. With 16 it
# is 28.5k to 29.7k; the rest of the kernel's figures are the same.
REAPED_MAX = 16
WORK = Path("/tmp/fairness")

LOG_ENTRIES = 1 << 19
"""More than any run has requests: a log that fills up grows only while its job submits, and what ends after the job's
last submission is then lost."""

GLOBAL = """[global]
ioengine=libaio
direct=1
thread
rw=randread
bs=4k
norandommap
time_based
runtime={runtime_ms}ms
clocksource=clock_gettime
disable_slat=1
disable_clat=1
log_unix_epoch=1
log_entries={log_entries}
"""


def say(text):
    print(text, flush=True)  # without the time: a guest under icount has its own


class NullPool:
    """null_blk devices on one tag set."""

    def __init__(self, layout):
        servers.call("modprobe", "null_blk", f"nr_devices={len(layout.tenants)}", "shared_tags=1", "submit_queues=1",
                     f"hw_queue_depth={layout.depth}", "irqmode=2", f"completion_nsec={layout.tenants[0].service_ns}")
        self.paths = {tenant.name: f"/dev/nullb{number}" for number, tenant in enumerate(layout.tenants)}
        for path in self.paths.values():
            servers.wait_for(Path(path).exists, path)
            servers.use_no_scheduler(path)

    def facts(self):
        return {}

    def stop(self):
        servers.call("modprobe", "-r", "null_blk")


def config(layout, policy):
    def target(tenant):
        null = {"type": "null", "size": servers.NULL_BYTES}
        return {"type": "delay", "time": tenant.service_ns, "target": null} if tenant.service_ns else null

    return {"tag_sets": {"pool": {"hw_queues": 1, "depth": layout.depth, "policy": policy}},
            "devices": [{"name": tenant.name, "tag_set": "pool", "depth": SLOTS, "weight": tenant.weight,
                         "target": target(tenant)} for tenant in layout.tenants]}


class UblkdPool:
    """ublkd with the devices of a layout on one tag set."""

    def __init__(self, layout, policy, places):
        self.daemon = servers.Daemon(config(layout, policy), places)
        self.paths = self.daemon.paths
        try:
            for path in self.paths.values():
                content.check(path, zeroes=True, in_order_bytes=CHECKED_BYTES, reads=CHECKED_READS)
        except BaseException:
            self.daemon.stop()
            raise

    def facts(self):
        return self.daemon.list()

    def stop(self):
        self.daemon.stop()


def job_lines(load, path):
    return [f"[{load.name}]", f"filename={path}", f"iodepth={load.depth}", f"iodepth_batch_submit={load.batch}",
            "iodepth_batch_complete_min=1", f"iodepth_batch_complete_max={min(load.batch, REAPED_MAX)}",
            f"write_lat_log={WORK}/{load.name}", *load.words]


def run_fio(run, paths, out, name):
    """fio's results by job; its logs go to `out`."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir()
    jobs = WORK / "jobs.fio"
    lines = [line for load in run.loads for line in job_lines(load, paths[load.tenant])]
    head = GLOBAL.format(runtime_ms=round(run.seconds * 1000), log_entries=LOG_ENTRIES)
    jobs.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")
    text = servers.call("fio", "--output-format=json", jobs)
    results = {}
    for job in json.loads(text[text.index("{"):])["jobs"]:
        if job["error"]:
            raise Failure(f"fio job {job['jobname']}: error {job['error']}")
        log, = WORK.glob(f"{job['jobname']}_lat.*.log")
        leave(log.read_bytes(), out / f"{name}-{job['jobname']}.log")
        results[job["jobname"]] = {"total_ios": job["read"]["total_ios"], "iops": job["read"]["iops"],
                                   "usr_percent": job["usr_cpu"], "sys_percent": job["sys_cpu"]}
    return results


class System:
    """null_blk, or ublkd with one policy; a layout that fails is told and left out."""

    def __init__(self, name, places, out):
        self.name = name
        self.places = places
        self.out = out
        self.runs, self.facts, self.errors = {}, {}, {}

    def pool(self, layout):
        return NullPool(layout) if self.name == KERNEL else UblkdPool(layout, self.name, self.places)

    def measure(self, pool, case):
        for run in case.runs:
            name = key(self.name, case, run)
            time.sleep(IDLE_S)
            self.runs[name] = run_fio(run, pool.paths, self.out, name)
            rates = "  ".join(f"{job} {figures['iops']:,.0f}" for job, figures in list(self.runs[name].items())[:8])
            say(f"{self.name} {case.name}, {case.title} ({run.name}): {rates} IOPS")
        self.facts[case.name] = pool.facts()

    def measure_layout(self, layout, cases):
        pool = self.pool(layout)
        try:
            for case in cases:
                self.measure(pool, case)
        finally:
            pool.stop()

    def run(self, cases):
        cases = [case for case in cases if self.name not in case.not_for]
        for layout in dict.fromkeys(case.layout for case in cases):
            try:
                self.measure_layout(layout, [case for case in cases if case.layout == layout])
            except (Failure, OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
                self.errors[layout.name] = f"{type(error).__name__}: {error}"
                say(f"{self.name}, pool {layout.name}: FAILED: {error}")

    def results(self):
        return {"runs": self.runs, "facts": self.facts, "errors": self.errors}


def leave(content, path):
    """Writes a log to the machine's folder and reads it back: sendfile to 9p, as shutil.copyfile does it, once left a
    log of zeroes there."""
    if b"\0" in content:
        raise Failure(f"fio's log for {path.name} holds zeroes")
    path.write_bytes(content)
    if path.read_bytes() != content:
        raise Failure(f"{path} does not hold what was written to it")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="*", default=[])
    parser.add_argument("--systems", nargs="+", required=True, help=f"{KERNEL}, and policies of ublkd")
    parser.add_argument("--out", required=True, help="folder for results and logs")
    given = parser.parse_args()
    out = Path(given.out)
    servers.TMPFS.mkdir(parents=True, exist_ok=True)
    places = servers.copy_binaries("release/ublkd", "release/ublkctl")
    systems = [System(name, places, out) for name in given.systems]
    for system in systems:
        system.run(chosen(given.cases))
    found = {"kernel": platform.release(), "systems": {system.name: system.results() for system in systems}}
    (out / "results.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    main_guard(main)
