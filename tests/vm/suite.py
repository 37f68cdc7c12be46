#!/usr/bin/python3
"""`./dev test`: builds, runs every suite, and ends with one line `ublkd: N passed, N failed, N skipped`.

Each suite states its budget in seconds, and has a hard limit after which it is ended and counts as failed. A suite over
its budget is reported, not failed: machines differ. Failures are: a failed test, a suite that did not report, no test
at all, a complaint in a guest's kernel log.
"""

import argparse
import os
import shlex
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Callable

import demo
import guest
import kernel as kernels
import presets
import process
import report
from paths import BUILD, PYTHON, ROOT
from progress import Failure, main_guard, say
from qemu import Drive

RESULTS = BUILD / "test"
CTEST_TIMEOUT_S = 120  # of one test
FULL_TIMES = 4  # as long may a guest run with --full
GUESTS_AT_ONCE = 2  # one guest's boot and waits leave most of two CPUs idle

# The guests of an e2e suite: name, what pytest selects (-m), virtual CPUs.
GROUPS = (("main", "not cpu4", 2), ("cpu4", "cpu4", 4))
E2E_DRIVES = (Drive("nvme", "ublkd-nvme-512", 256 << 20), Drive("nvme", "ublkd-nvme-4k", 8 << 30, block_bytes=4096),
              Drive("virtio", "ublkd-virtio", 256 << 20))
# For tests of NVMe: the monitor as a port of the guest; a drive of 32 KiB a command whose image can be swapped for one
# with faults; a drive of two namespaces; one of formats that are not served; queues for polling.
E2E_QEMU = (
    "-chardev socket,id=qmpd,path={job}/qmp2,server=on,wait=off -mon chardev=qmpd,mode=control "
    "-chardev socket,id=qmpc,path={job}/qmp2 -device virtserialport,chardev=qmpc,name=qmp -D {job}/trace",
    "-object throttle-group,id=tg -blockdev driver=file,node-name=fb,filename=FOLDER/fault.img,discard=unmap "
    "-blockdev driver=throttle,node-name=tb,throttle-group=tg,file=fb,discard=unmap "
    "-device nvme,id=nvf,serial=ublkd-fault,drive=tb,mdts=3,addr=0x15",
    "-device nvme,id=nv2,serial=ublkd-two -drive file=FOLDER/two1.img,if=none,id=two1,format=raw "
    "-drive file=FOLDER/two2.img,if=none,id=two2,format=raw "
    "-device nvme-ns,drive=two1,bus=nv2,nsid=1 -device nvme-ns,drive=two2,bus=nv2,nsid=2",
    "-device nvme,id=nvo,serial=ublkd-odd -drive driver=null-co,size=16M,if=none,id=odd1 "
    "-drive driver=null-co,size=16M,if=none,id=odd2 -device nvme-ns,drive=odd1,bus=nvo,nsid=1,ms=8,mset=1 "
    "-device nvme-ns,drive=odd2,bus=nvo,nsid=2,ms=64,mset=0")
E2E_IMAGES = ("fault.img", "two1.img", "two2.img")
E2E_IMAGE_BYTES = 64 << 20
E2E_APPEND = "nvme.poll_queues=1"


@dataclass(frozen=True)
class Suite:
    """`run(outcome, suite, asked)` fills the outcome. `needs` are the build presets it takes."""
    name: str
    budget_s: int
    limit_s: int
    needs: tuple
    run: Callable
    kernel: str = ""


def job_folder(name):
    folder = RESULTS / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def ctest(outcome, suite, preset, *select):
    """Runs the selected ctest tests of a build; no test at all is a failure."""
    folder = RESULTS / suite.name
    junit = folder / f"{preset}.xml"
    before = len(outcome.cases)
    status = process.call(["ctest", "--test-dir", str(BUILD / preset), "--output-junit", str(junit), "--timeout",
                           str(CTEST_TIMEOUT_S), "--output-on-failure", "-j", str(os.cpu_count()), *select],
                          suite.limit_s, log=folder / f"{preset}.log")
    what = f"ctest {preset} {' '.join(select)}"
    if status is None:
        outcome.fail(what, f"no end after {suite.limit_s} s, see {folder}/{preset}.log")
        return
    report.read_junit(outcome, junit, what)
    if len(outcome.cases) == before:
        outcome.fail(what, f"no test ran, see {folder}/{preset}.log")
    elif status and not outcome.count("failed"):
        outcome.fail(what, f"exit status {status}, see {folder}/{preset}.log")


def run_unit(outcome, suite, asked):
    ctest(outcome, suite, "asan", "-LE", "contract")
    ctest(outcome, suite, "tsan", "-L", "tsan")


def run_contract(outcome, suite, asked):
    ctest(outcome, suite, "asan", "-L", "contract")


def run_program(outcome, suite, *command):
    """A suite that is one program: it passes by exit status 0."""
    log = RESULTS / suite.name / "output.log"
    status = process.call(command, suite.limit_s, log=log)
    if status == 0:
        outcome.cases.append(report.Case(suite.name, suite.name, "passed"))
        return
    text = log.read_text(encoding="utf-8", errors="replace")
    outcome.fail(suite.name, f"{'no end in time' if status is None else f'exit status {status}'}\n{text}")


def run_lint(outcome, suite, asked):
    run_program(outcome, suite, PYTHON, str(ROOT / "tests/vm/lint.py"))


def run_demo(outcome, suite, asked):
    run_program(outcome, suite, PYTHON, str(ROOT / "tests/vm/demo.py"), "--short", "--no-build")


def run_power_cut(outcome, suite, asked):
    run_program(outcome, suite, PYTHON, str(ROOT / "tests/vm/power_cut.py"), "--kernel", suite.kernel)


def pytest_line(folder, group, marker, asked):
    words = [PYTHON, "-m", "pytest", "tests/e2e", "-p", "no:cacheprovider", "-q", "-rs", "--color=no", "-m", marker,
             "--junitxml", str(folder / f"{group}.xml"), *(["--full"] if asked.full else []),
             *(["-k", asked.select] if asked.select else [])]
    return shlex.join(words)


def run_e2e_group(outcome, suite, asked, group, marker, cpus):
    """One guest. pytest's status 5, no test selected, is fine for a group, not for the suite."""
    folder = RESULTS / suite.name
    for name in E2E_IMAGES:
        with open(folder / name, "wb") as image:
            image.truncate(E2E_IMAGE_BYTES)
    with open(folder / f"{group}.log", "wb") as out:
        result = guest.run(guest.Spec(
            pytest_line(folder, group, marker, asked), kernel=suite.kernel, cpus=cpus, rw=(folder,), cwd=str(ROOT),
            drives=E2E_DRIVES, qemu=tuple(words.replace("FOLDER", str(folder)) for words in E2E_QEMU),
            append=E2E_APPEND, timeout_s=suite.limit_s * (FULL_TIMES if asked.full else 1),
            log=str(folder / f"{group}.kernel.log"), stdout=out,
            env={"UBLKD_BUILD": BUILD / "release", "UBLKD_JOB": folder}))
    outcome.boots_repeated += result.boots_repeated
    what = f"guest {group}"
    if result.status == 5:
        pass
    elif result.status in (0, 1):
        report.read_junit(outcome, folder / f"{group}.xml", what)
    else:
        text = (folder / f"{group}.log").read_text(encoding="utf-8", errors="replace")
        outcome.fail(what, f"status {result.status} after {result.seconds:.0f} s, see {folder}\n{text}")
    if result.complaints:
        outcome.fail(f"kernel log {group}", f"{result.kernel_log}:\n" + "\n".join(result.complaints))


def run_e2e(outcome, suite, asked):
    for group, marker, cpus in GROUPS:
        run_e2e_group(outcome, suite, asked, group, marker, cpus)
    if not outcome.cases:
        outcome.fail(suite.name, "no test ran")


SUITES = (
    Suite("lint", 20, 120, (), run_lint),
    Suite("unit", 60, 600, ("asan", "tsan"), run_unit),
    Suite("contract", 60, 600, ("asan",), run_contract),
    *(Suite(f"e2e-{row['name']}", 600, 1500, ("release", "asan"), run_e2e, row["name"]) for row in kernels.rows()),
    *(Suite(f"power-cut-{row['name']}", 60, 300, ("release",), run_power_cut, row["name"]) for row in kernels.rows()),
    Suite("demo", 90, 300, ("release",), run_demo, demo.KERNEL),
)


def fetch_kernels(suites):
    """Unpacks the guests' kernels. A failure shows again, with its reason, in the suite that boots one."""
    for name in dict.fromkeys(suite.kernel for suite in suites if suite.kernel):
        try:
            kernels.fetch(name)
        except Failure as failure:
            say(str(failure))


def build(suites):
    """Builds what the suites need while their kernels arrive; returns the presets that failed."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(fetch_kernels, suites)
        return build_presets(suites)


def build_presets(suites):
    broken = []
    for preset in dict.fromkeys(preset for suite in suites for preset in suite.needs):
        if not presets.built(preset):
            broken.append(preset)
    return broken


def run_suite(suite, asked, broken):
    outcome = report.Outcome(suite.name)
    begin_s = time.monotonic()
    job_folder(suite.name)
    bad = [preset for preset in suite.needs if preset in broken]
    if bad:
        outcome.fail(suite.name, f"not run: build of {', '.join(bad)} failed")
        return outcome
    say(f"{suite.name}: budget {suite.budget_s} s ...")
    try:
        suite.run(outcome, suite, asked)
    except Exception as error:  # a harness that breaks is a failed suite, the others still run
        outcome.fail(suite.name, f"the harness failed: {type(error).__name__}: {error}")
    outcome.seconds = time.monotonic() - begin_s
    over = "" if outcome.seconds <= suite.budget_s else " OVER BUDGET"
    say(f"{suite.name}: {outcome.count('passed')} passed, {outcome.count('failed')} failed, "
        f"{outcome.count('skipped')} skipped; {outcome.seconds:.0f} s of {suite.budget_s} s{over}")
    return outcome


def run_all(suites, asked, broken):
    """Outcomes in the order of the suites. Guest suites run after the others, some at once, and the demo last."""
    outcomes = {}
    for suite in suites:
        if not suite.kernel:
            outcomes[suite.name] = run_suite(suite, asked, broken)
    with ThreadPoolExecutor(asked.guests) as pool:
        running = {suite.name: pool.submit(run_suite, suite, asked, broken) for suite in suites if suite.run is run_e2e}
        try:
            outcomes.update({name: future.result() for name, future in running.items()})
        except BaseException:
            guest.stopping.set()
            raise
    for suite in suites:
        if suite.name not in outcomes:
            outcomes[suite.name] = run_suite(suite, asked, broken)
    return [outcomes[suite.name] for suite in suites]


def main():
    parser = argparse.ArgumentParser(prog="./dev test", description=__doc__)
    parser.add_argument("--full", action="store_true", help="the long matrices too")
    parser.add_argument("--only", action="append", choices=[suite.name for suite in SUITES], help="only this suite")
    parser.add_argument("-k", dest="select", metavar="EXPR", help="e2e: only the tests that pytest's -k selects")
    parser.add_argument("--guests", type=int, default=GUESTS_AT_ONCE, help="e2e suites that run at once")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, guest.stop)
    suites = [suite for suite in SUITES if not given.only or suite.name in given.only]
    broken = build(suites)
    return report.show(run_all(suites, given, broken))


if __name__ == "__main__":
    main_guard(main)
