"""Child processes that never outlive their time limit or this process."""

import os
import signal
import subprocess
import time

GRACE_S = 5


def end_group(process):
    """Ends the child's whole process group: politely, then not."""
    for number, wait_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, GRACE_S)):
        try:
            os.killpg(process.pid, number)
            process.wait(wait_s)
        except (ProcessLookupError, PermissionError):
            return
        except subprocess.TimeoutExpired:
            continue


def call(command, timeout_s, log=None, env=None, cwd=None):
    """Runs a command in its own process group, output to the file `log` or where ours goes.

    Returns its exit status, None when it was ended for lack of time.
    """
    out = open(log, "wb") if log else None
    try:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT if log else None,
                                   stdin=subprocess.DEVNULL, start_new_session=True, cwd=cwd,
                                   env={**os.environ, **(env or {})})
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                end_group(process)
    finally:
        if out:
            out.close()


def wait_until(condition, timeout_s, poll_s=0.05):
    """Polls until condition() is true; returns its value, or None when the time is up."""
    end_s = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end_s:
            return None
        time.sleep(poll_s)
