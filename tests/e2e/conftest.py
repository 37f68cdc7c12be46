"""Fixtures of the end-to-end tests, and what every test is held to: a clean kernel log, no leftovers, a timely end."""

import os
import signal

import pytest

import load
import machine
import ublkd

TEST_TIMEOUT_S = 90
FULL_TIMES = 5  # as long may a test take with --full


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="full counts and matrices")


def pytest_configure(config):
    config.addinivalue_line("markers", "cpu4: needs a guest of four CPUs")
    config.addinivalue_line("markers", "kernel_log(pattern): the test causes these lines of the kernel log")
    config.addinivalue_line("markers", "limit(seconds): longest time of the test, 90 s by default")


def pytest_collection_modifyitems(items):
    if os.environ.get("UBLKD_GUEST") != "1":
        for item in items:
            item.add_marker(pytest.mark.skip(reason="runs as root in a guest only: ./dev test"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for d in getattr(item, "daemons", ()):
            report.sections.append((f"log of ublkd in {d.folder}", d.log_text()[-8000:]))


@pytest.fixture(scope="session")
def kernel_log():
    return machine.KernelLog()


@pytest.fixture
def count(request, record_testsuite_property):
    """count("A01 rounds", short=10, full=100): how often to do it; a shortening is told to the runner."""
    def chosen(what, short, full):
        if request.config.getoption("--full"):
            return full
        record_testsuite_property("shortened", f"{what} {short} of {full}")
        return short
    return chosen


def marked(item, name, default):
    marker = item.get_closest_marker(name)
    return marker.args[0] if marker else default


@pytest.fixture(autouse=True)
def held_to(request, kernel_log):
    """Fails a test that takes too long, upsets the kernel or leaves something behind; and clears that away."""
    limit_s = marked(request.node, "limit", TEST_TIMEOUT_S)
    if request.config.getoption("--full"):
        limit_s *= FULL_TIMES

    def late(*_):
        raise AssertionError(f"no end after {limit_s} s")
    signal.signal(signal.SIGALRM, late)
    kernel_log.new_lines()
    request.node.daemons = []
    signal.alarm(limit_s)
    try:
        yield
        stop_all(request.node.daemons)
    finally:
        signal.alarm(0)
        left = machine.leftovers()
        if left:
            for d in request.node.daemons:
                d.kill()
            machine.reload_driver()
    found = machine.complaints(kernel_log.new_lines(), marked(request.node, "kernel_log", None))
    assert not found, "the kernel complains:\n" + "\n".join(found)
    assert not left, "left behind: " + ", ".join(left)


def stop_all(daemons):
    """Ends what the test did not end itself, in the order of its making, and has each end well."""
    for d in daemons:
        if d.running():
            d.stop()


@pytest.fixture
def daemon(request, tmp_path):
    """Starts daemons: daemon(config, args=..., ready=True); see ublkd.Daemon."""
    def start(config=None, ready=True, **options):
        folder = options.pop("folder", tmp_path / f"ublkd{len(request.node.daemons)}")
        d = ublkd.Daemon(folder, config, **options)
        request.node.daemons.append(d)
        return d.wait_ready() if ready else d
    return start


@pytest.fixture
def guarded(tmp_path):
    """guarded(d, tag_set): adds a file device to a tag set of the daemon and returns a load.Guard on it, to be used
    with `with`."""
    def add(d, tag_set=None, name="guarded", **options):
        more = {"tag_set": tag_set} if tag_set else {}
        image = tmp_path / f"{name}.img"
        device = d.add(ublkd.file_device(name, image, size="8MiB", create="sparse", depth=16, **more))
        return load.Guard(device["path"], **options)
    return add
