"""The guest's initial RAM disk: busybox, the few modules it takes to reach the machine's root, and an init script."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import apt
import kernel as kernels
from paths import VM
from progress import Failure

MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay", "configfs", "virtio_console",
           "virtio_blk", "nvme", "ublk_drv")
INIT = Path(__file__).with_name("initrd-init.sh")


def tool(name, package):
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not path:
        raise Failure(f"{name} is missing: install the package {package} (./dev setup)")
    return path


def fill(tree, kernel):
    for folder in ("bin", "dev", "proc", "sys"):
        (tree / folder).mkdir()
    shutil.copy2(tool("busybox", "busybox-static"), tree / "bin/busybox")
    shutil.copy2(INIT, tree / "init")
    (tree / "init").chmod(0o755)
    target = tree / "usr/lib/modules" / kernel.release
    (tree / "lib").symlink_to("usr/lib")
    for module in MODULES:
        for relative in kernels.find_module(kernel.modules, module):
            (target / relative).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(kernel.modules / relative, target / relative)
    kernels.depmod(target)


def pack(tree, image):
    names = "\n".join(sorted(str(path.relative_to(tree)) for path in tree.rglob("*")))
    with open(image, "wb") as out:
        subprocess.run([tool("cpio", "cpio"), "-o", "-H", "newc", "--quiet"], cwd=tree, input=names.encode(),
                       stdout=out, check=True)


def build(kernel):
    """Returns the kernel's initrd, made first where it is missing or older than what it is made of."""
    image = VM / "kernels" / f"{kernel.name}.initrd"
    with apt.locked(VM / "kernels" / f".{kernel.name}.initrd.lock"):
        newest_s = max(path.stat().st_mtime for path in (INIT, Path(__file__), kernel.modules / "modules.dep"))
        if image.exists() and image.stat().st_mtime > newest_s:
            return image
        with tempfile.TemporaryDirectory(prefix="ublkd-vm-initrd-") as folder:
            fill(Path(folder), kernel)
            pack(Path(folder), image.with_suffix(".new"))
        image.with_suffix(".new").rename(image)
    return image
