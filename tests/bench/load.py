"""The load: fio's t/io_uring, the client that costs least. 4 KiB random reads, fixed buffers, registered files."""

import re
import subprocess

from progress import Failure

TIMEOUT_S = 1800
SECONDS = 2  # the rate is told after each whole second, and not after the last
UNITS = {"": 1, "K": 1000, "M": 1000000}


def line(binary, device, depth, batch, *more):
    return [binary, f"-d{depth}", f"-s{batch}", f"-c{batch}", "-b4096", "-B1", "-F1", "-p0", "-n1", "-R1",
            f"-r{SECONDS}", *more, device]


def run(words):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=TIMEOUT_S, check=False)
    rates = re.findall(r"^IOPS=([\d.]+)([KM]?),", done.stdout, re.M)
    if done.returncode or not rates or "rror" in done.stdout or "nexpected" in done.stdout:
        raise Failure(f"{' '.join(words)}: status {done.returncode}:\n{done.stdout}")
    number, unit = rates[-1]
    return float(number) * UNITS[unit], done.stdout


def iops(binary, device, depth=128, batch=32):
    return run(line(binary, device, depth, batch))[0]


def p50_us(binary, device, tsc_hz):
    """Half of the single requests take less, in microseconds of the guest."""
    output = run(line(binary, device, 1, 1, "-t1", f"-T{tsc_hz}"))[1]
    unit = re.search(r"percentiles \((\w+)\)", output)
    value = re.search(r" 50\.0000th=\[\s*(\d+)\]", output)
    if not unit or not value:
        raise Failure(f"t/io_uring printed no percentiles:\n{output}")
    return int(value.group(1)) / {"nsec": 1000, "usec": 1}[unit.group(1)]
