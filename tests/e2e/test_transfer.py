"""How requests and data move: each way that the kernel has gives the same data, and the one in force is told."""

import itertools

import pytest

from backings import stand  # pylint: disable=unused-import
from load import fio, fio_verify
from ublkd import ApiError, file_device, null_device

FEATURES = ("AUTO_BUF_REG", "BATCH_IO")
MASKS = [",".join(mask) for n in range(len(FEATURES) + 1) for mask in itertools.combinations(FEATURES, n)]


def kernel_features(d):
    return {f["name"] for f in d.ctl_json("features")["features"] if f["kernel"]}


def without(mask):
    return ["--without", mask] if mask else []


@pytest.fixture(params=MASKS, ids=lambda mask: f"without {mask}" if mask else "with all")
def masked(request, daemon):
    """A daemon that does without some features, and those it may use."""
    d = daemon(args=without(request.param))
    return d, kernel_features(d) - set(request.param.split(","))


@pytest.mark.parametrize("mode", ("auto", "copy"))
def test_data_is_right_in_each_way(masked, stand, mode):
    d, usable = masked
    backing = stand.make("null_blk", 16 << 20)
    told = d.add(file_device("a", backing.path, buffer_mode=mode, queues=2, depth=32))
    zero_copy = mode == "auto" and "AUTO_BUF_REG" in usable
    assert told["buffer_mode"] == ("zero_copy" if zero_copy else "copy")
    assert ("AUTO_BUF_REG" in told["flags"]) == zero_copy
    assert ("BATCH_IO" in told["flags"]) == ("BATCH_IO" in usable)
    assert (told["memory_bytes"] == 0) == zero_copy
    fio_verify(told["path"], bsrange="512-256k", size="8m", iodepth=64)
    fio(told["path"], rw="randrw", verify="crc32c", verify_fatal=1, bs="4k", size="4m", offset="8m", iodepth=32,
        numjobs=2, offset_increment="4m", fsync=16, group_reporting=True)
    told = d.device("a")
    assert all(op["errors"] == 0 for op in told["ops"].values())
    assert told["active"] == 0 and told["tags_taken"] == told["tags_put"] and told["ops"]["flush"]["count"] > 0
    assert all(queue["cq_overflows"] == 0 for tag_set in d.call("list")["tag_sets"] for queue in tag_set["queues"])


@pytest.mark.parametrize("mask", (MASKS[0], MASKS[-1]))
def test_devices_come_and_go_beside_one_in_use(daemon, guarded, tmp_path, mask):
    """On one ring: each has slots and buffers of its own there, and they are used again."""
    d = daemon({"tag_sets": {"shared": {"depth": 32, "slots_total_max": 64}}}, args=without(mask))
    with guarded(d, "shared"):
        for number in range(3):
            image = tmp_path / f"{number}.img"
            told = d.add(file_device("x", image, size="1MiB", create="sparse", depth=32, tag_set="shared"))
            fio_verify(told["path"], iodepth=32)
            fio(d.add(null_device("n", depth=16, tag_set="shared"))["path"], rw="randread", size="256k", iodepth=16)
            d.remove("x", "n")


def test_a_mode_that_cannot_be_is_refused(daemon, stand):
    d = daemon(args=without("AUTO_BUF_REG"))
    disk = stand.make("null_blk", 1 << 20)
    for device, why in ((file_device("a", disk.path), "AUTO_BUF_REG"), (null_device("a"), "see the data")):
        with pytest.raises(ApiError, match=why) as refused:
            d.add({**device, "buffer_mode": "zero_copy"})
        assert "buffer_mode" in refused.value.message
    assert not d.devices()
