"""NVMe drives made by this kernel: nvmet serves block devices or files, and the host driver connects to it by loop or
TCP. For guests; needs root and configfs."""

import itertools
import re
import subprocess
import time
from pathlib import Path

from progress import Failure

CONFIG = Path("/sys/kernel/config/nvmet")
FABRICS = Path("/dev/nvme-fabrics")
WAIT_S = 20
TCP_PORT = 4420
numbers = itertools.count(1)


def write(path, value):
    Path(path).write_text(str(value), encoding="ascii")


def modprobe(*words):
    done = subprocess.run(["modprobe", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(f"modprobe {' '.join(words)}: {done.stderr.strip()}")


def wait_for(condition, what):
    end_s = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > end_s:
            raise Failure(f"{what}: not so after {WAIT_S} s")
        time.sleep(0.02)


class Drive:
    """A controller over loop or TCP with a namespace for each path; close() takes all of it down.

    .block[0] is /dev/nvmeXn1, .generic[0] /dev/ngXn1, .name the controller (nvmeX). queues, depth: the host's."""

    def __init__(self, *paths, transport="loop", queues=0, depth=0):
        modprobe(f"nvme-{transport}")
        if transport == "tcp":
            modprobe("nvmet-tcp")
        number = next(numbers)
        self.nqn = f"ublkd-test-{number}"
        self.subsystem = CONFIG / "subsystems" / self.nqn
        self.port = CONFIG / "ports" / str(number)
        self.transport, self.paths, self.name = transport, paths, ""
        # A loop port is found by its address, which may be any text; without one it is the first port there is.
        self.address = "127.0.0.1" if transport == "tcp" else self.nqn
        self.connection = f"transport={transport},nqn={self.nqn},traddr={self.address}"
        if transport == "tcp":
            self.connection += f",trsvcid={TCP_PORT + number}"
        self.connection += f",nr_io_queues={queues}" * bool(queues) + f",queue_size={depth}" * bool(depth)
        try:
            self.offer(number)
            self.connect()
        except BaseException:
            self.close()
            raise

    def namespace(self, nsid=1):
        """Its folder in configfs."""
        return self.subsystem / "namespaces" / str(nsid)

    def offer(self, number):
        self.subsystem.mkdir()
        write(self.subsystem / "attr_allow_any_host", 1)
        for nsid, path in enumerate(self.paths, 1):
            self.namespace(nsid).mkdir()
            write(self.namespace(nsid) / "device_path", path)
            write(self.namespace(nsid) / "enable", 1)
        self.port.mkdir()
        write(self.port / "addr_trtype", self.transport)
        write(self.port / "addr_traddr", self.address)
        if self.transport == "tcp":
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            write(self.port / "addr_adrfam", "ipv4")
            write(self.port / "addr_trsvcid", TCP_PORT + number)
        (self.port / "subsystems" / self.nqn).symlink_to(self.subsystem)

    def connect(self):
        with open(FABRICS, "r+b", buffering=0) as node:
            node.write(self.connection.encode())
            self.name = f"nvme{re.search(rb'instance=([0-9]+)', node.read(4096)).group(1).decode()}"
        wait_for(lambda: len(self.heads()) == len(self.paths), f"{self.name}: {len(self.paths)} namespaces")
        self.block = [f"/dev/{name}" for name in self.heads()]
        self.generic = [f"/dev/ng{name[4:]}" for name in self.heads()]
        wait_for(lambda: all(Path(node).exists() for node in self.block + self.generic), f"nodes of {self.name}")

    def heads(self):
        """Names of the block devices of its namespaces; with multipath those of the subsystem."""
        found = {}
        for entry in Path("/sys/class/nvme", self.name).iterdir():
            match = re.fullmatch(r"nvme([0-9]+)(?:c[0-9]+)?n([0-9]+)", entry.name)
            if match:
                found[int(match[2])] = f"nvme{match[1]}n{match[2]}"
        return [found[nsid] for nsid in sorted(found)]

    def attribute(self, name):
        return Path("/sys/class/nvme", self.name, name)

    def disconnect(self):
        if self.name and self.attribute("delete_controller").exists():
            write(self.attribute("delete_controller"), 1)
        self.name = ""

    def close(self):
        self.disconnect()
        link = self.port / "subsystems" / self.nqn
        if link.is_symlink():
            link.unlink()
        for folder in (self.port, *(self.namespace(nsid) for nsid in range(1, len(self.paths) + 1)), self.subsystem):
            if folder.exists():
                folder.rmdir()
