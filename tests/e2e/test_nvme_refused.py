"""NVMe passthrough: what cannot be served is refused with its reason before any I/O, and leaves nothing."""

import fcntl
import os
from pathlib import Path

import pytest

from backings import stand  # pylint: disable=unused-import
from disk import Disk
from load import fio_verify
from machine import run
from nvme import MIB, SERIALS, controller_of, drives, facts, nvme_device, of_guest  # pylint: disable=unused-import
from ublkd import ApiError, file_device, null_device


def refused(d, device, *words):
    with pytest.raises(ApiError) as error:
        d.add(device)
    message = str(error.value)
    assert all(word in message for word in words), message
    return message


def test_A40_the_wrong_node(daemon, drives, tmp_path):
    d = daemon()
    drive = drives.make("loop512")
    plain = tmp_path / "plain"
    plain.write_bytes(bytes(MIB))
    for path, word in ((plain, "regular file"), (tmp_path, "directory"), (tmp_path / "none", "No such file"),
                       (f"/dev/{drive.controller}", "controller"), ("/dev/null", "character device"),
                       (drives.stand.null_blk(MIB), "no NVMe namespace")):
        refused(d, nvme_device("a", path), str(path), word)
    assert not d.devices()


def test_A40_a_partition_is_named_as_a_range(daemon, drives):
    drive = drives.make("loop512")
    run("addpart", drive.block, 1, 2048, 4096)
    refused(daemon(), nvme_device("a", f"{drive.block}p1"), "partition", drive.block, f"offset {2048 * 512}",
            f"length {4096 * 512}")


def test_A42_metadata_formats(daemon):
    d = daemon()
    for nsid, words in ((1, ("512 bytes of data", "8 of metadata", "interleaved")),
                        (2, ("512 bytes of data", "64 of metadata", "separate"))):
        refused(d, nvme_device("a", odd_node(nsid)), *words)


def odd_node(nsid):
    """Its generic node; the kernel gives the block device of such a namespace no size, or does not make one."""
    folder = Path("/sys/class/nvme", controller_of(SERIALS["odd"]))
    names = sorted(path.name for path in folder.glob("ng*n*"))
    for name in names:
        fd = os.open(f"/dev/{name}", os.O_RDONLY)
        try:
            if fcntl.ioctl(fd, 0x4e40) == nsid:  # NVME_IOCTL_ID
                return f"/dev/{name}"
        finally:
            os.close(fd)
    raise AssertionError(f"no namespace {nsid} among {names}")


@pytest.mark.parametrize("target, words", (
    ({"offset": "64MiB"}, ("offset 67108864", "not inside its 67108864 bytes")),
    ({"offset": "63MiB", "length": "2MiB"}, ("end beyond its 67108864 bytes",)),
    ({"offset": 512}, ("offset 512", "4096 B block")),
    ({"length": 4608}, ("length 4608", "4096 B block"))))
def test_a_range_that_is_not_there(daemon, drives, target, words):
    refused(daemon(), nvme_device("a", drives.make("loop4096"), target=target), *words)


def test_ranges_that_overlap(daemon, drives):
    drive = drives.make("loop512")
    d = daemon({"devices": [nvme_device("a", drive, target={"offset": MIB, "length": MIB})]})
    for name, generic, target in (("whole", True, {}), ("tail", False, {"offset": 2 * MIB - 512})):
        refused(d, nvme_device(name, drive, generic, target=target), "device a")
    refused(d, file_device("file", drive.block), "device a")
    d.add(nvme_device("next", drive, target={"offset": 2 * MIB}))
    assert set(d.devices()) == {"a", "next"}


def test_a_namespace_in_use(daemon, drives, tmp_path):
    drive = drives.make("loop512")
    run("mkfs.ext4", "-q", "-F", drive.block)
    where = tmp_path / "mnt"
    where.mkdir()
    run("mount", drive.block, where)
    d = daemon()
    try:
        refused(d, nvme_device("a", drive), "mounted", "force")
        d.add(nvme_device("forced", drive, target={"force": True}))
        assert "by force" in d.log_text()
        d.remove("forced")
    finally:
        run("umount", where)
    d.add(nvme_device("a", drive))
    assert run("mount", drive.block, where, check=False).returncode != 0, "ours, as long as it is served"
    d.remove("a")


def test_A43_a_missing_right_is_named(daemon, drives):
    """As root without the capability that passes over modes."""
    drive = drives.make("loop512")
    os.chmod(drive.generic, 0o040)
    d = daemon(wrap=("setpriv", "--bounding-set=-dac_override,-dac_read_search",
                     "--inh-caps=-dac_override,-dac_read_search"))
    refused(d, nvme_device("a", drive), drive.generic, "mode 0040")


def test_A38_a_live_set_with_small_entries(daemon, drives):
    drive = drives.make("loop512")
    d = daemon({"tag_sets": {"small": {}, "big": {"ring_entries": "big"}},
                "devices": [null_device("n", tag_set="small"), null_device("m", tag_set="big")]})
    refused(d, nvme_device("a", drive, tag_set="small"), "small", "ring_entries: big")
    d.add(nvme_device("a", drive, tag_set="big"))
    fio_verify(d.path("a"))
    rings = {tag_set["name"]: tag_set["queues"][0]["ring"] for tag_set in d.call("list")["tag_sets"]}
    assert "SQE128" in rings["big"] and "SQE128" not in rings["small"]


def test_another_block_size(daemon, drives):
    refused(daemon(), nvme_device("a", drives.make("loop512"), logical_block_size=4096), "512", "4096")


def test_A44_polling_without_queues_for_it(daemon, drives):
    drive = drives.make("loop512")
    d = daemon({"devices": [nvme_device("a", drive, target={"poll": True})]})
    assert facts(d)["completions"] == "interrupt"
    assert d.log_text().count("no queues for polling") == 1
    fio_verify(d.path("a"))


@pytest.mark.parametrize("kind", ("pci512", "pci4096"))
def test_A44_polling(daemon, drives, kind):
    """Also flushes, and beside a device that does not poll on the same hardware queue; idle, it does not spin."""
    drive = drives.make(kind)
    other = of_guest("two", 1)
    d = daemon({"tag_sets": {"s": {"ring_entries": "big"}}, "devices": [
        nvme_device("a", drive, tag_set="s", target={"poll": True}), nvme_device("b", other, tag_set="s")]})
    assert facts(d)["completions"] == "polled" and d.device("a")["buffer_mode"] == "copy"
    assert "poll" in d.device("a")["buffer_mode_why"]
    fio_verify(d.path("a"), bsrange=f"{drive.block_bytes}-128k", size="4m", iodepth=16, fsync=8)
    fio_verify(d.path("b"))
    with Disk(d.path("a")) as disk:
        disk.write(0, bytes(4096))
        disk.flush()
    told = d.device("a")
    assert told["ops"]["flush"]["count"] > 0 and all(op["errors"] == 0 for op in told["ops"].values())
    turns = lambda: d.call("list")["tag_sets"][0]["queues"][0]["turns"]
    before = turns()
    run("sleep", "0.5")
    assert turns() - before < 50
