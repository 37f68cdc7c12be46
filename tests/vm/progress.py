"""Progress lines with the time since ./dev started, on stderr: `[12s] build release ...`."""

import contextlib
import os
import sys
import time

START_S = float(os.environ.setdefault("UBLKD_DEV_START", f"{time.time():.0f}"))


class Failure(Exception):
    """Something the user has to know: what failed, on what, and what to do about it."""


def say(text):
    print(f"[{max(0, time.time() - START_S):.0f}s] {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def step(text):
    """Announces a long step and says how long it took."""
    say(f"{text} ...")
    begin_s = time.monotonic()
    yield
    say(f"{text}: {time.monotonic() - begin_s:.1f} s")


def main_guard(main):
    """Runs main(); turns Failure and Ctrl-C into one line and an exit status."""
    try:
        sys.exit(main())
    except Failure as failure:
        print(f"{os.path.basename(sys.argv[0])}: {failure}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
