#!/usr/bin/python3
"""Benchmark peers, built under build/peers from Debian's source packages; no code of theirs is in this project.

  build/peers/kublk      the kernel's own ublk test server (linux-source-7.3, tools/testing/selftests/ublk)
  build/peers/io_uring   fio's t/io_uring, the load that costs least
  build/peers/*.version  what each was built from

`peers.py` makes what is missing and prints both paths. Each is made in a folder of its own and moved into place whole.
"""

import glob
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "vm"))

import apt  # noqa: E402
from paths import BUILD  # noqa: E402
from progress import Failure, main_guard, step  # noqa: E402

PEERS = BUILD / "peers"
KERNEL_SUITE = "trixie-backports"
KERNEL_SOURCE = "linux-source-7.3"
LIBURING_SUITE = "sid"
BUILD_TIMEOUT_S = 600


def call(command, cwd, log):
    """Runs a build command, output to `log`."""
    with open(log, "ab") as out:
        try:
            done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                  timeout=BUILD_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise Failure(f"{command[0]} in {cwd}: no end after {BUILD_TIMEOUT_S} s, see {log}") from None
    if done.returncode:
        raise Failure(f"{' '.join(map(str, command))} in {cwd} failed, see {log}")


def build_liburing(work, log):
    suite = apt.Suite(LIBURING_SUITE, work / "apt-liburing", "deb-src")
    suite.update()
    source = suite.source("liburing", work / "liburing")
    call(["./configure"], source, log)
    call(["make", "-C", "src", f"-j{os.cpu_count()}"], source, log)
    return source / "src"


def unpack_kernel_parts(work, log):
    """Returns (the self-test's folder, the kernel's user headers, the kernel's version)."""
    suite = apt.Suite(KERNEL_SUITE, work / "apt-kernel")
    suite.update()
    suite.unpack([KERNEL_SOURCE, "linux-libc-dev"], work)
    archive = glob.glob(f"{work}/usr/src/{KERNEL_SOURCE}.tar.*")
    if len(archive) != 1:
        raise Failure(f"{KERNEL_SOURCE} of {KERNEL_SUITE} holds {len(archive)} archives, want 1")
    call(["tar", "-xf", archive[0], "-C", str(work), "--strip-components=1", "--wildcards",
          "*/tools/testing/selftests/ublk/*"], work, log)
    headers = [path for path in glob.glob(f"{work}/usr/**/linux/ublk_cmd.h", recursive=True) if "/src/" not in path]
    if not headers:
        raise Failure(f"linux-libc-dev of {KERNEL_SUITE} has no linux/ublk_cmd.h")
    return work / "tools/testing/selftests/ublk", Path(headers[0]).parents[1], suite.version(KERNEL_SOURCE)


def build_kublk(work, log):
    """Builds it as work/out; returns what it is made from."""
    liburing = build_liburing(work, log)
    source, headers, kernel_version = unpack_kernel_parts(work, log)
    machine = subprocess.run(["gcc", "-print-multiarch"], capture_output=True, text=True, check=True).stdout.strip()
    includes = [f"-I{liburing}/include", f"-I{headers}", f"-I{headers}/{machine}"]
    sources = sorted(path for path in source.glob("*.c") if path.name != "metadata_size.c")
    call(["gcc", "-O2", "-g1", "-w", "-D_GNU_SOURCE", *includes, "-o", work / "out", *sources,
          liburing / "liburing.a", "-lpthread"], source, log)
    return f"{kernel_version} with {liburing.parent.name}"


def build_io_uring(work, log):
    suite = apt.Suite(apt.machine_codename(), work / "apt-fio", "deb-src")
    suite.update()
    source = suite.source("fio", work / "fio")
    call(["./configure", "--disable-native"], source, log)
    call(["make", f"-j{os.cpu_count()}", "t/io_uring"], source, log)
    shutil.copy2(source / "t/io_uring", work / "out")
    return source.name


def make(name, build):
    """Builds one peer unless it is there; its path."""
    target = PEERS / name
    log = PEERS / f"{name}.log"
    with apt.locked(PEERS / f".{name}.lock"):
        if target.exists():
            return target
        log.unlink(missing_ok=True)
        with step(f"build peer {name}"), tempfile.TemporaryDirectory(prefix=f".{name}-", dir=PEERS) as work:
            made_from = build(Path(work), log)
            target.with_suffix(".version").write_text(made_from + "\n", encoding="utf-8")
            (Path(work) / "out").rename(target)
    return target


def kublk():
    return make("kublk", build_kublk)


def io_uring():
    return make("io_uring", build_io_uring)


def version(name):
    """What a peer was built from."""
    path = PEERS / f"{name}.version"
    return path.read_text(encoding="utf-8").strip() if path.exists() else "of unknown version"


def main():
    print(kublk())
    print(io_uring())
    return 0


if __name__ == "__main__":
    main_guard(main)
