"""How often the kernel runs some of its functions, counted by kprobes. For guests; needs root."""

import os
from pathlib import Path

TRACING = Path("/sys/kernel/tracing")
GROUP = "ublkd"

# io_uring sent a request to its worker threads; the block layer copied a passthrough command's data.
PUNTS, BOUNCES = "io_queue_iowq", "bio_copy_from_iter"


class Probes:
    """A context manager; .counts() since it was entered, by function."""

    def __init__(self, *functions):
        self.functions = functions or (PUNTS, BOUNCES)

    def __enter__(self):
        for function in self.functions:
            self.change(f"p:{GROUP}/{function} {function}")
            self.enable(function, 1)
        return self

    def __exit__(self, *_):
        for function in self.functions:
            self.enable(function, 0)
            self.change(f"-:{GROUP}/{function}")

    @staticmethod
    def change(line):
        node = os.open(TRACING / "kprobe_events", os.O_WRONLY | os.O_APPEND)  # open() would seek, which it refuses
        try:
            os.write(node, line.encode())
        finally:
            os.close(node)

    @staticmethod
    def enable(function, on):
        (TRACING / "events" / GROUP / function / "enable").write_text(str(on), encoding="ascii")

    def counts(self):
        lines = (line.split() for line in (TRACING / "kprobe_profile").read_text(encoding="ascii").splitlines())
        hits = {name: int(hit) for name, hit, *_ in lines}
        return {function: hits[function] for function in self.functions}
