"""The qemu command line of a guest."""

import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from progress import Failure

# Without erms and fsrm the kernel copies in a loop: else one "rep movsb" of 4 KiB counts 4096 instructions.
TCG_CPU = "max,-erms,-fsrm"

KERNEL_ARGUMENTS = ("console=ttyS0 loglevel=5 panic=-1 oops=panic mitigations=off nokaslr tsc=reliable "
                    "random.trust_cpu=on log_buf_len=4M rcupdate.rcu_cpu_stall_timeout=60 sysrq_always_enabled=1 "
                    "nvme_core.default_ps_max_latency_us=0")


@dataclass(frozen=True)
class Drive:
    """A disk: `bus` nvme or virtio, a `file` or, without one, a fresh sparse one of `size_bytes`."""
    bus: str
    serial: str
    size_bytes: int = 0
    file: str = ""
    block_bytes: int = 512

    @classmethod
    def parse(cls, text):
        """`nvme:64M`, `virtio:/path/to/file`, then `,serial=S` and `,lbs=4096`."""
        head, *options = text.split(",")
        bus, colon, what = head.partition(":")
        fields = dict(option.partition("=")[::2] for option in options)
        unknown = set(fields) - {"serial", "lbs"}
        if bus not in ("nvme", "virtio") or not colon or not what or unknown:
            raise Failure(f"--drive {text}: want nvme:SIZE_OR_FILE or virtio:SIZE_OR_FILE[,serial=S][,lbs=4096]")
        units = {"K": 10, "M": 20, "G": 30}
        sized = what[:-1].isdigit() and what[-1] in units
        return cls(bus, fields.get("serial", bus), int(what[:-1]) << units[what[-1]] if sized else 0,
                   "" if sized else what, int(fields.get("lbs", 512)))

    def arguments(self, number, job):
        path = self.file
        if not path:
            path = str(job / f"disk{number}")
            with open(path, "wb") as out:
                out.truncate(self.size_bytes)
        device = {"nvme": "nvme", "virtio": "virtio-blk-pci"}[self.bus]
        return ["-drive", f"file={path},if=none,id=disk{number},format=raw,discard=unmap",
                "-device", f"{device},serial={self.serial},drive=disk{number},"
                f"logical_block_size={self.block_bytes},physical_block_size={self.block_bytes}"]


def share(tag, path, read_only):
    if "," in str(path):
        raise Failure(f"cannot share {path} with a guest: its name has a comma")
    return ["-fsdev", f"local,id={tag},path={path},security_model=none,multidevs=remap"
            f"{',readonly=on' if read_only else ''}",
            "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]


def processor(spec, accel):
    if spec.icount:
        return ["-accel", "tcg", "-icount", "shift=0,sleep=off", "-cpu", TCG_CPU, "-smp", "1"]
    if accel == "kvm":
        return ["-accel", "kvm", "-cpu", "host", "-smp", str(spec.cpus)]
    return ["-accel", f"tcg,thread={'multi' if spec.cpus > 1 else 'single'}", "-cpu", TCG_CPU, "-smp", str(spec.cpus)]


def output(spec, job):
    """Console to a file; the command's output to qemu's stdout, through a port that is fast under emulation."""
    serial = ["-serial", f"file:{job}/console"]
    if spec.interactive:
        return [*serial, "-chardev", "stdio,id=out,signal=off", "-serial", "chardev:out"]
    return [*serial, "-chardev", "stdio,id=out", "-device", "virtio-serial-pci",
            "-device", "virtserialport,chardev=out,name=out"]


def command(spec, kernel, initrd, job, accel):
    """`spec` is a guest.Spec; `job` the run's folder."""
    binary = shutil.which("qemu-system-x86_64")
    if not binary:
        raise Failure("qemu-system-x86_64 is missing: install the package qemu-system-x86 (./dev setup)")
    line = [binary, *processor(spec, accel), "-m", spec.memory, "-nographic", "-no-reboot", "-nodefaults",
            "-monitor", "none", "-qmp", f"unix:{job}/qmp,server=on,wait=off",
            "-kernel", str(kernel.image), "-initrd", str(initrd),
            "-append", f"{KERNEL_ARGUMENTS} {spec.append} guestinit=/job/init", *output(spec, job),
            *share("root", Path("/"), True), *share("job", job, False), *share("modules", kernel.modules.parent, True)]
    for tag, path, read_only in spec.shares():
        line += share(tag, path, read_only)
    for number, drive in enumerate(spec.drives):
        line += drive.arguments(number, job)
    return line + [part.replace("{job}", str(job)) for text in spec.qemu for part in shlex.split(text)]
