"""The shipped fio jobs: their units are the ones fio reads as bytes, and each runs over the whole device."""

import json
import os
import re

import pytest

from machine import ROOT, run
from ublkd import file_device

JOBS = sorted((ROOT / "tests/bench/jobs").glob("*.fio"))
SIZES = ("bs", "bsrange", "blockalign", "size", "offset", "offset_increment", "io_size", "filesize", "fill_device")
SIZE = re.compile(r"\d+[kmg]?(-\d+[kmg]?)?")
SIZE_BYTES = 4 << 20


def options(job):
    for line in job.read_text(encoding="ascii").splitlines():
        if line and line[0] not in ";#[":
            key, _, value = line.partition("=")
            yield key, value


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.stem)
def test_A77_sizes_are_plain_or_lower_case_binary(job):
    for key, value in options(job):
        assert key not in SIZES or SIZE.fullmatch(value), f"{job.name}: {key}={value}"
        assert not re.search(r"\d\s*[kmgt]i?b\b|\d[KMGT]", value), f"{job.name}: {key}={value}"
        assert key not in ("kb_base", "unit_base")


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.stem)
def test_A77_job_covers_the_device(daemon, tmp_path, job):
    d = daemon({"tag_sets": {"s": {}}, "devices": [
        file_device(name, tmp_path / f"{name}.img", size=SIZE_BYTES, create="sparse", io="buffered", tag_set="s",
                    logical_block_size=512) for name in ("a", "b")]})
    point = tmp_path / "mounted"
    point.mkdir()
    words = ["fio", "--output-format=json", "--max-jobs=8"]
    timed = dict(options(job)).get("runtime")
    if timed:  # a copy that is short
        short = tmp_path / job.name
        short.write_text(job.read_text(encoding="ascii").replace(f"runtime={timed}", "runtime=1"), encoding="ascii")
        job = short
    environment = {**os.environ, "UBLKD_DEVICE": d.path("a"), "UBLKD_DEVICE2": d.path("b"), "UBLKD_FOLDER": str(point)}
    done = run(*words, job, env=environment, timeout_s=60)
    jobs = json.loads(done.stdout[done.stdout.index("{"):])["jobs"]
    assert jobs and all(one["error"] == 0 for one in jobs)
    for one in jobs:
        if not timed:
            assert one["write"]["io_bytes"] == SIZE_BYTES == os.stat(tmp_path / "a.img").st_size
            continue
        assert one["read"]["total_ios"] + one["write"]["total_ios"] > 0
