#!/usr/bin/python3
"""Stock Debian kernels with ublk, unpacked under build/vm/kernels/NAME: `kernel.py list`, `kernel.py fetch [NAME...]`.

kernels.json has a row per kernel; a new kernel is a new row. A kernel that is there is used as it is; `fetch` is
atomic: a broken download leaves nothing behind.
"""

import json
import lzma
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import apt
from paths import VM
from progress import Failure, main_guard, step

ROWS = Path(__file__).with_name("kernels.json")

# Kept uncompressed, with what they depend on: a guest under emulation spends a second on a large compressed module.
HOT_MODULES = (
    "virtio_pci virtio_blk virtio_console 9pnet_virtio 9p overlay ublk_drv null_blk loop brd nvme nvmet nvme-loop "
    "ext4 xfs configfs dm-mod dm-delay dm-flakey dm-log-writes scsi_debug").split()


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel. `modules` is its .../lib/modules/RELEASE folder."""
    name: str
    release: str
    modules: Path
    image: Path
    folder: Path


def rows():
    return json.loads(ROWS.read_text(encoding="utf-8"))


def row_of(name):
    for row in rows():
        if row["name"] == name:
            return row
    known = ", ".join(row["name"] for row in rows())
    raise Failure(f"no kernel '{name}' in tests/vm/kernels.json (there: {known})")


def opened(name, folder):
    """The kernel unpacked in `folder`, or None."""
    for modules in sorted([*folder.glob("usr/lib/modules/*/modules.dep"), *folder.glob("lib/modules/*/modules.dep")]):
        modules = modules.parent
        for image in (modules / "vmlinuz", folder / f"boot/vmlinuz-{modules.name}"):
            if image.is_file():
                return Kernel(name, modules.name, modules, image, folder)
    return None


def version_key(package):
    return [int(number) for number in re.findall(r"\d+", package)]


def choose_image(suite, row):
    """The newest image package of the row's version, else whatever the suite's flavour package names now."""
    pattern = re.compile(rf"linux-image-{re.escape(row['name'])}[.+-][^a-z]*(\+\w+)?-{re.escape(row['flavour'])}")
    exact = [name for name in suite.names(f"linux-image-{row['name']}") if pattern.fullmatch(name)]
    if exact:
        return max(exact, key=version_key)
    images = [name for name in suite.depends(f"linux-image-{row['flavour']}") if re.match(r"linux-image-\d", name)]
    if not images:
        raise Failure(f"suite {row['suite']} has no kernel image of flavour {row['flavour']}")
    return images[0]


def find_module(modules, name):
    """The module's dependency line: its own file first, then what it needs; relative to `modules`."""
    pattern = re.compile(rf"(?:^|/){re.sub('[-_]', '[-_]', name)}\.ko(?:\.xz)?:")
    for line in (modules / "modules.dep").read_text(encoding="utf-8").splitlines():
        if pattern.search(line):
            return line.replace(":", "", 1).split()
    return []


def depmod(modules):
    base = modules.parents[2]
    try:
        subprocess.run(["depmod", "-b", base, modules.name], check=True, capture_output=True,
                       env={**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"})
    except FileNotFoundError:
        raise Failure("depmod is missing: install the package kmod (./dev setup)") from None


def expand_hot_modules(modules):
    for name in HOT_MODULES:
        for relative in find_module(modules, name):
            path = modules / relative
            if path.suffix == ".xz" and path.is_file():
                path.with_suffix("").write_bytes(lzma.decompress(path.read_bytes()))
                path.unlink()


def unpack(row, into):
    suite = apt.Suite(row["suite"], into / "apt")
    suite.update()
    image = choose_image(suite, row)
    release = image.removeprefix("linux-image-")
    split = {f"linux-binary-{release}", f"linux-modules-{release}"}  # newer kernels come in parts
    suite.unpack([image, *sorted(split.intersection(suite.names("linux-")))], into)
    shutil.rmtree(into / "apt")
    (into / "usr/lib/debug").exists() and shutil.rmtree(into / "usr/lib/debug")
    folders = [*into.glob("usr/lib/modules/*"), *into.glob("lib/modules/*")]
    if len(folders) != 1:
        raise Failure(f"{image} of {row['suite']} has {len(folders)} module folders, want 1")
    depmod(folders[0])
    expand_hot_modules(folders[0])
    depmod(folders[0])


def fetch(name):
    """Returns the kernel, unpacking it first where needed."""
    row = row_of(name)
    folder = VM / "kernels" / name
    with apt.locked(VM / "kernels" / f".{name}.lock"):
        kernel = opened(name, folder)
        if kernel:
            return kernel
        temporary = folder.with_name(f".{name}.unpacking")
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)
        temporary.mkdir(parents=True)
        try:
            with step(f"fetch kernel {name} ({row['suite']})"):
                unpack(row, temporary)
            temporary.rename(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        kernel = opened(name, folder)
        if not kernel:
            raise Failure(f"no kernel image in what suite {row['suite']} gave for {name}: see {folder}")
        return kernel


def main():
    if sys.argv[1:2] == ["list"]:
        for row in rows():
            print(f"{row['name']:8} {row['suite']:20} {row['why']}")
        return 0
    if sys.argv[1:2] == ["fetch"]:
        for name in sys.argv[2:] or [row["name"] for row in rows()]:
            kernel = fetch(name)
            print(f"{name}: {kernel.release}")
        return 0
    print(__doc__.strip(), file=sys.stderr)
    return 2


if __name__ == "__main__":
    main_guard(main)
