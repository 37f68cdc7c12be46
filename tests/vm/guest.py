#!/usr/bin/python3
"""Runs a command as root in a qemu guest with a stock kernel that has ublk.

The guest sees this machine's root read-only (writes go to a tmpfs overlay and are lost), the project, and the folders
named by --rw and --ro at their own paths. The command's output comes as it is written, its exit status is returned.
124: out of time. 125: the guest ended without an exit status.

  guest.py run --kernel 7.3 -- 'uname -r; ls /dev/ublk*'
  guest.py run --kernel 6.12 --cpus 4 --rw build/test --timeout 300 -- /usr/bin/python3 -m pytest tests/e2e
  guest.py shell --kernel 7.3

As a library: `run(Spec(...))` returns a Result; `Guest` is for tests that cut the power or talk to qemu themselves.
"""

import argparse
import ctypes
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import accel
import console
import initrd
import kernel as kernels
import qemu
from paths import ROOT, VM
from progress import Failure, main_guard, say

INIT = Path(__file__).with_name("guest-init.sh")
HIDDEN = ("/tmp", "/run", "/var/tmp", "/mnt")  # a tmpfs in the guest: what is needed there is shared by name
START_TIMEOUT_S = 120  # to the first line of its init; emulated on a busy machine it takes 10 s
POWEROFF_TIMEOUT_S = 20
LOGS_KEPT = 40
stopping = threading.Event()  # set: every guest of this process ends at once
STATUS_TIMEOUT = 124
STATUS_DIED = 125


@dataclass(frozen=True)
class Spec:
    """A guest and the command to run in it. Paths are the machine's and the same in the guest."""
    command: str
    kernel: str = "7.3"
    cpus: int = 2
    memory: str = "3G"
    icount: bool = False      # one CPU, one instruction = one virtual ns
    ublk: bool = True         # load ublk_drv first
    rw: tuple = ()
    ro: tuple = ()
    drives: tuple = ()        # of qemu.Drive
    append: str = ""          # more kernel arguments
    qemu: tuple = ()          # more qemu arguments, {job} is the run's folder
    env: dict = field(default_factory=dict)
    cwd: str = ""
    timeout_s: int = 900
    log: str = ""             # where to leave the kernel's log; default under build/vm/log
    interactive: bool = False
    stdout: object = None     # a file for the command's output; default this process's stdout

    def shares(self):
        """(tag, path, read_only), parents before children."""
        paths = {Path(path).resolve(): True for path in self.ro}
        paths.update({Path(path).resolve(): False for path in self.rw})
        for path in (ROOT, VM):
            if any(path.is_relative_to(hidden) for hidden in HIDDEN):
                paths.setdefault(path, True)
        return [(f"share{number}", path, paths[path]) for number, path in enumerate(sorted(paths))]


@dataclass(frozen=True)
class Result:
    """How a run ended. `kernel_log` is the path of the saved log; `complaints` what it must not contain."""
    status: int
    kernel_log: Path
    complaints: list
    boots_repeated: int
    seconds: float
    timed_out: bool


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: no qemu outlives a killed harness


def remove_stale_jobs():
    """Deletes folders of runs that were killed; a live one has its process id in its name."""
    for folder in Path(tempfile.gettempdir()).glob("ublkd-vm-*-*"):
        number = folder.name.split("-")[2]
        if number.isdigit() and not Path(f"/proc/{number}").exists():
            shutil.rmtree(folder, ignore_errors=True)


class Guest:
    """One boot. A context manager: leaving it ends qemu and removes the job folder.

    The job folder is /job in the guest: both sides may leave files there. `qmp` is qemu's control socket.
    """

    def __init__(self, spec, accelerator):
        self.spec = spec
        self.accelerator = accelerator
        self.process = None
        self.job = None

    def __enter__(self):
        remove_stale_jobs()
        self.job = Path(tempfile.mkdtemp(prefix=f"ublkd-vm-{os.getpid()}-"))
        return self

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.job, ignore_errors=True)

    @property
    def qmp(self):
        return self.job / "qmp"

    def environment(self):
        size = shutil.get_terminal_size()
        values = {
            "UBLKD_GUEST": 1, "UBLKD_KERNEL": self.spec.kernel, "UBLKD_ICOUNT": int(self.spec.icount),
            "UBLKD_CPUS": 1 if self.spec.icount else self.spec.cpus, "PYTHONDONTWRITEBYTECODE": 1,
            "PYTHONUNBUFFERED": 1, "TERM": os.environ.get("TERM", "dumb") if self.spec.interactive else "dumb",
            "GUEST_UBLK": int(self.spec.ublk), "GUEST_DRIVES": len(self.spec.drives),
            "GUEST_CWD": self.spec.cwd or os.getcwd(),
            "GUEST_TIMEOUT_S": self.spec.timeout_s, "GUEST_INTERACTIVE": int(self.spec.interactive),
            "GUEST_ROWS": size.lines, "GUEST_COLUMNS": size.columns, **self.spec.env}
        return "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in values.items())

    def start(self):
        kernel = kernels.fetch(self.spec.kernel)
        image = initrd.build(kernel)
        shutil.copy(INIT, self.job / "init")
        (self.job / "env").write_text(self.environment(), encoding="utf-8")
        (self.job / "cmd").write_text(self.spec.command + "\n", encoding="utf-8")
        (self.job / "shares").write_text(
            "".join(f"{tag} {'cache=loose,ro' if read_only else 'cache=mmap'} {path}\n"
                    for tag, path, read_only in self.spec.shares()), encoding="utf-8")
        line = qemu.command(self.spec, kernel, image, self.job, self.accelerator)
        # A pipe that is never written: at the end of its input qemu would close the port of the output too.
        with open(self.job / "qemu.err", "wb") as err:
            self.process = subprocess.Popen(
                line, stdin=None if self.spec.interactive else subprocess.PIPE, stdout=self.spec.stdout, stderr=err,
                start_new_session=not self.spec.interactive, preexec_fn=die_with_parent)

    def started(self):
        return (self.job / "started").exists()

    def status(self):
        """The command's exit status, None while there is none."""
        try:
            return int((self.job / "rc").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process and self.process.stdin:
            self.process.stdin.close()

    def wait(self):
        """Waits for the end. Returns True when qemu had to be killed for lack of time."""
        begin_s = time.monotonic()
        done_s = None
        while True:
            try:
                self.process.wait(0.1 if done_s is None else 0.05)
                return False
            except subprocess.TimeoutExpired:
                now_s = time.monotonic()
            if stopping.is_set():
                raise KeyboardInterrupt
            if done_s is None and self.status() is not None:
                done_s = now_s
            late = now_s - begin_s > (self.spec.timeout_s if self.started() else
                                      min(START_TIMEOUT_S, self.spec.timeout_s))
            if done_s is not None and now_s - done_s > POWEROFF_TIMEOUT_S:
                self.kill()  # the command is done, the shutdown is stuck: the log says whether that matters
                return False
            if done_s is None and late:
                self.kill()
                return True

    def log(self):
        """The console's text, then the whole kernel log where the guest could still leave it."""
        parts = []
        for name in ("qemu.err", "console", "dmesg", "processes"):
            path = self.job / name
            if path.exists() and path.stat().st_size:
                parts.append(f"---- {name}\n{path.read_text(encoding='utf-8', errors='replace')}")
        return "\n".join(parts)


def keep_log(spec, text):
    folder = VM / "log"
    path = Path(spec.log) if spec.log else folder / f"{time.strftime('%m%d-%H%M%S')}-{spec.kernel}-{os.getpid()}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if not spec.log:
        for old in sorted(folder.glob("*.log"), key=lambda log: log.stat().st_mtime)[:-LOGS_KEPT]:
            old.unlink(missing_ok=True)
    return path


def boot(spec, accelerator):
    """One boot. Returns (Result, whether its init began)."""
    begin_s = time.monotonic()
    with Guest(spec, accelerator) as guest:
        guest.start()
        timed_out = guest.wait()
        log = guest.log()
        status = guest.status()
        if status is None:
            status = STATUS_TIMEOUT if timed_out else STATUS_DIED
        path = keep_log(spec, log)
        result = Result(status, path, console.scan(log), 0, time.monotonic() - begin_s, timed_out)
        return result, guest.started()


def works_with_kvm(spec):
    def probe(timeout_s):
        tiny = Spec("true", kernel=spec.kernel, cpus=1, memory="512M", ublk=False, timeout_s=timeout_s)
        return boot(tiny, "kvm")[0].status == 0
    return probe


def tell_failure(spec, result):
    why = f"no end after {spec.timeout_s} s" if result.timed_out else "the guest ended without an exit status"
    tail = "\n".join(result.kernel_log.read_text(encoding="utf-8", errors="replace").splitlines()[-40:])
    print(f"guest {spec.kernel}: {why}; the end of {result.kernel_log}:\n{tail}", file=sys.stderr, flush=True)


def run(spec):
    """Runs the command. A guest that dies before its init began is booted once more; never one that had begun."""
    accelerator = "tcg" if spec.icount else accel.choose(works_with_kvm(spec))
    result, began = boot(spec, accelerator)
    if not began:
        say(f"guest {spec.kernel} died before its init began: booting it once more (log: {result.kernel_log})")
        result = replace(boot(spec, accelerator)[0], boots_repeated=1)
    if result.timed_out or result.status == STATUS_DIED:
        tell_failure(spec, result)
    return result


def stop(*_):
    """Signal handler: ends as Ctrl-C does."""
    raise KeyboardInterrupt


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("run", "shell"))
    parser.add_argument("--kernel", default="7.3", help="a name of kernels.json (default 7.3)")
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("--mem", default="3G")
    parser.add_argument("--icount", action="store_true", help="1 CPU, one instruction is one virtual nanosecond")
    parser.add_argument("--no-ublk", action="store_true", help="do not load ublk_drv")
    parser.add_argument("--rw", action="append", default=[], metavar="DIR")
    parser.add_argument("--ro", action="append", default=[], metavar="DIR")
    parser.add_argument("--drive", action="append", default=[], metavar="BUS:SIZE_OR_FILE[,serial=S][,lbs=N]")
    parser.add_argument("--append", default="", help="more kernel arguments")
    parser.add_argument("--qemu", action="append", default=[], metavar="ARGS", help="more qemu arguments")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--timeout", type=int, default=900, metavar="S")
    parser.add_argument("--log", default="", metavar="FILE", help="where to leave the kernel log")
    parser.add_argument("--scan", action="store_true", help="a complaint in the kernel log is a failure (status 1)")
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    given = parser.parse_args(words[:cut])
    given.command = words[cut + 1:]
    if given.verb == "run" and not given.command:
        parser.error("which command? it comes after --")
    return given


def main():
    given = arguments()
    signal.signal(signal.SIGTERM, stop)
    command = given.command[0] if len(given.command) == 1 else shlex.join(given.command)
    spec = Spec(command, kernel=given.kernel, cpus=given.cpus, memory=given.mem, icount=given.icount,
                ublk=not given.no_ublk, rw=tuple(given.rw), ro=tuple(given.ro),
                drives=tuple(qemu.Drive.parse(text) for text in given.drive), append=given.append,
                qemu=tuple(given.qemu), env=dict(pair.partition("=")[::2] for pair in given.env),
                timeout_s=given.timeout, log=given.log, interactive=given.verb == "shell")
    if given.verb == "shell":
        spec = replace(spec, timeout_s=86400)
    for path in (*spec.rw, *spec.ro):
        if not Path(path).is_dir():
            raise Failure(f"{path} is not a folder: --rw and --ro share folders that are there")
    result = run(spec)
    if given.scan and result.complaints:
        print(f"kernel log {result.kernel_log}:", *result.complaints, sep="\n  ", file=sys.stderr)
        return result.status or 1
    return result.status


if __name__ == "__main__":
    main_guard(main)
