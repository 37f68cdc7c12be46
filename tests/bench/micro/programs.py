"""The programs of this folder: where they are, and how one is built in build/release."""

import fcntl
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "vm"))

import presets  # noqa: E402
from paths import BUILD, ROOT  # noqa: E402
from progress import Failure  # noqa: E402

RELEASE = BUILD / "release"


def path(program):
    return RELEASE / "tests/bench/micro" / program


def build(program):
    """Builds it in build/release, which `./dev build release` has configured."""
    presets.build("release")
    with open(BUILD / ".release.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for words in (["cmake", "--preset", "release"], ["cmake", "--build", str(RELEASE), "--target", program]):
            done = subprocess.run(words, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  check=False)
            if done.returncode:
                raise Failure(f"{' '.join(words)} failed; are all packages installed (./dev setup)?\n"
                              f"{(done.stdout + done.stderr)[-2000:]}")
