"""The monitor of the qemu that this guest runs in, by a port of the guest (suite.py gives it)."""

import json
import os
from pathlib import Path

from machine import wait_until

PORT_NAME = "qmp"


def port():
    """The node of the monitor's port; None in a guest without one."""
    for name in Path("/sys/class/virtio-ports").glob("*/name"):
        if name.read_text(encoding="ascii").strip() == PORT_NAME:
            return f"/dev/{name.parent.name}"
    return None


class Monitor:
    """A context manager: .run("device_del", id="x") returns the answer or fails the test."""

    def __enter__(self):
        node = port()
        assert node, "this guest has no port of qemu's monitor"
        self.fd = os.open(node, os.O_RDWR | os.O_NONBLOCK)
        self.text = b""
        self.ask("qmp_capabilities")  # refused when an earlier monitor has done it
        return self

    def __exit__(self, *_):
        os.close(self.fd)

    def answer(self):
        """The next answer, without greeting and events; None while it is not there."""
        try:
            self.text += os.read(self.fd, 1 << 16)
        except BlockingIOError:
            pass
        *lines, self.text = self.text.split(b"\n")
        for number, line in enumerate(lines):
            message = json.loads(line)
            if "return" in message or "error" in message:
                self.text = b"\n".join([*lines[number + 1:], self.text])
                return message
        return None

    def ask(self, command, **arguments):
        os.write(self.fd, json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        return wait_until(self.answer, 20, what=f"qemu's answer to {command}")

    def run(self, command, **arguments):
        message = self.ask(command, **arguments)
        assert "return" in message, f"{command}: {message}"
        return message["return"]

    def human(self, line):
        return self.run("human-monitor-command", **{"command-line": line})
