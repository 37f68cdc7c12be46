"""The load: fio's t/io_uring, the client that costs least. Random reads, fixed buffers, registered files."""

import re
import subprocess

from progress import Failure

TIMEOUT_S = 1800
SECONDS = 2  # the rate is told after each whole second, and not after the last
UNITS = {"": 1, "K": 1000, "M": 1000000}


def line(binary, device, depth, batch, *more, block_bytes=4096):
    passthrough = ("-u1", "-O0") if "/ng" in device else ()
    return [binary, f"-d{depth}", f"-s{batch}", f"-c{batch}", f"-b{block_bytes}", "-B1", "-F1", "-p0", "-n1", "-R1",
            f"-r{SECONDS}", *passthrough, *more, device]


def run(words):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=TIMEOUT_S, check=False)
    rates = re.findall(r"^IOPS=([\d.]+)([KM]?),", done.stdout, re.M)
    if done.returncode or not rates or "rror" in done.stdout or "nexpected" in done.stdout:
        raise Failure(f"{' '.join(words)}: status {done.returncode}:\n{done.stdout}")
    number, unit = rates[-1]
    return float(number) * UNITS[unit], done.stdout


def iops(binary, device, row, batch=32):
    return run(line(binary, device, row.depth, batch, block_bytes=row.block_bytes))[0]


def p50_us(binary, device, row, tsc_hz):
    """Half of the single requests take less, in microseconds of the guest."""
    output = run(line(binary, device, 1, 1, "-t1", f"-T{tsc_hz}", block_bytes=row.block_bytes))[1]
    unit = re.search(r"percentiles \((\w+)\)", output)
    value = re.search(r" 50\.0000th=\[\s*(\d+)\]", output)
    if not unit or not value:
        raise Failure(f"t/io_uring printed no percentiles:\n{output}")
    return int(value.group(1)) / {"nsec": 1000, "usec": 1}[unit.group(1)]
