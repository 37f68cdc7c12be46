"""Configs that are not right: `ublkctl check-config` and `ublkd --config` refuse them alike and start nothing.

One input of each kind: the tables of config/README.md are tested whole by the unit tests.
"""

import json
import resource
import subprocess
import time

import pytest

from machine import ROOT, nodes, run
from ublkd import UBLKCTL, UBLKD, null_device

REFUSAL_MAX_S = 5
MEMORY_MAX_KIB = 256 << 10


def with_target(text):
    return '{"devices": [\n  {"name": "a", "target": %s}\n]}\n' % text


def with_size(text):
    return with_target('{"type": "null", "size": %s}' % text)


def with_depth(text):
    return '{"devices": [\n  {"name": "a", "depth": %s, "target": {"type": "null", "size": "1MiB"}}\n]}\n' % text


# case -> (text of the file, what the refusal must say)
BAD = {
    "A68_key_twice": (with_target('{"type": "null", "size": 4096,\n "size": 8192}'), (":3:", "devices[0].target")),
    "A68_two_devices_of_one_name": (json.dumps({"devices": [null_device("a"), null_device("a")]}), ("devices[1]", "a")),
    "A69_negative": (with_size("-1"), (":2:", "devices[0].target.size")),
    "A69_fraction": (with_size("4096.0"), (":2:", "devices[0].target.size")),
    "A69_exponent": (with_size("1e6"), (":2:", "devices[0].target.size")),
    "A69_beyond_64_bits": (with_size("18446744073709551616"), (":2:", "devices[0].target.size")),
    "A69_depth_too_large": (with_depth("4097"), (":2:", "devices[0].depth", "4096")),
    "A69_depth_zero": (with_depth("0"), (":2:", "devices[0].depth")),
    "A69_not_a_number": (with_size("NaN"), (":2:",)),
    "A69_hexadecimal": (with_size("0x1000"), (":2:",)),
    "A70_utf16": (with_size("4096").encode("utf-16"), ("UTF-16",)),
    "A70_mark_only": (b"\xef\xbb\xbf", ("empty",)),
    "A71_comment": ("{ // a comment\n}", (":1:3",)),
    "A71_trailing_comma": ('{"devices": [],\n}', (":1:15", "comma")),
    "A72_wrong_type": (with_depth('"x"'), ("devices[0].depth", "whole number")),
    "A72_null": (with_depth("null"), ("devices[0].depth", "null")),
    "A72_list_for_object": ("[]", ("object",)),
    "A73_suffix_of_two_meanings": (with_size('"1M"'), ("devices[0].target.size", "1MiB")),
    "A73_space": (with_size('"1 MiB"'), ("devices[0].target.size",)),
    "A74_deep": ("[" * 500_000, ("32",)),
    "A74_deep_and_closed": ("[" * 500_000 + "]" * 500_000, ("32",)),
    "unknown_key": (with_target('{"type": "null", "szie": 4096}'), ("devices[0].target", "size")),
    "unknown_target": (with_target('{"type": "nill"}'), ("devices[0].target.type", "null")),
}


@pytest.mark.parametrize("case", BAD)
def test_refused(case, tmp_path):
    text, words = BAD[case]
    file = tmp_path / "config.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    begin_s = time.monotonic()
    checked = run(UBLKCTL, "check-config", file, check=False)
    served = run(UBLKD, "--config", file, "--run-dir", tmp_path / "run", check=False, timeout_s=REFUSAL_MAX_S)
    assert time.monotonic() - begin_s < 2 * REFUSAL_MAX_S
    for done in (checked, served):
        assert done.returncode == 1, done
        assert str(file) in done.stderr
        assert all(word in done.stderr for word in words), done.stderr
    assert not nodes()


def test_A74_takes_little_memory(tmp_path):
    file = tmp_path / "config.json"
    file.write_text("[" * 500_000)
    subprocess.run([UBLKCTL, "check-config", file], capture_output=True, check=False)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < MEMORY_MAX_KIB


def test_several_faults_are_told_at_once(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"devices": [null_device("a", depth=0), null_device("b", weight=0), {"name": "c"}]}))
    done = run(UBLKCTL, "check-config", file, check=False)
    assert all(where in done.stderr for where in ("devices[0].depth", "devices[1].weight", "devices[2]")), done.stderr


def test_file_that_is_not_there(daemon, tmp_path):
    for program, words in ((UBLKCTL, ("check-config",)), (UBLKD, ("--run-dir", tmp_path / "run", "--config"))):
        done = run(program, *words, tmp_path / "missing.json", check=False)
        assert done.returncode == 1 and str(tmp_path / "missing.json") in done.stderr


def test_A70_byte_order_mark_is_skipped(daemon):
    d = daemon("\ufeff" + json.dumps({"devices": [null_device("a", size=1 << 20)]}))
    assert d.device("a")["size_bytes"] == 1 << 20


def test_config_from_standard_input(tmp_path):
    text = json.dumps({"devices": [null_device("a")]})
    done = subprocess.run([UBLKCTL, "-o", "json", "check-config", "-"], input=text, capture_output=True, text=True,
                          check=True)
    assert json.loads(done.stdout)["devices"] == 1
    done = subprocess.run([UBLKD, "--run-dir", tmp_path / "run", "--config", "-"], input="{", capture_output=True,
                          text=True, check=False, timeout=REFUSAL_MAX_S)
    assert done.returncode == 1 and "standard input" in done.stderr


def test_sizes_mean_what_they_say(daemon):
    d = daemon({"devices": [null_device("text", size="3MiB"), null_device("number", size=3 << 20),
                            null_device("large", size=(1 << 62) - 512)]})
    assert {name: device["size_bytes"] for name, device in d.devices().items()} == {
        "text": 3 << 20, "number": 3 << 20, "large": (1 << 62) - 512}
    for name in ("text", "number"):
        assert int(run("blockdev", "--getsize64", d.path(name)).stdout) == 3 << 20


@pytest.mark.parametrize("example", sorted(path.name for path in (ROOT / "config").glob("*.json")
                                           if "schema" not in path.name))
def test_examples_are_right(example):
    done = run(UBLKCTL, "check-config", ROOT / "config" / example)
    assert done.stdout


def test_schema_is_the_shipped_one():
    assert json.loads(run(UBLKCTL, "schema").stdout) == json.loads((ROOT / "config/ublkd.schema.json").read_text())
