"""The table of a benchmark run, made from the figures that the guest left."""

import statistics

import rows

HEAD = ("row", "IOPS", "instr/IO", "ratio", "limit", "", "spread", "p50 us", "punts", "bounces", "buffers")
LEFT = {"row", "", "buffers"}


def median_iops(found, name):
    """Of a row's rounds; None when it was not measured."""
    row = found["rows"].get(name)
    return statistics.median(row["iops"]) if row and row["iops"] and not row["error"] else None


def ratio(found, row, peer):
    """Cost per I/O as a multiple of the peer's."""
    own, other = median_iops(found, row.name), median_iops(found, peer)
    return other / own if own and other else None


def verdict(found, value, limit):
    if not limit or value is None or not found["icount"]:  # limits are of instructions
        return "", ""
    # Rounded as shown: what reads 1.02 is not more than 1.02.
    return f"{limit:.2f}x", "ok" if round(value, 3) <= limit else "MISSED"


def count(value):
    """Nothing where none was counted."""
    return "" if value is None else str(value)


def cells(found, row):
    figures = found["rows"][row.name]
    rate = median_iops(found, row.name)
    if rate is None:
        return (row.title, "FAILED", *[""] * (len(HEAD) - 2))
    times = ratio(found, row, row.peer)
    spread = (max(figures["iops"]) - min(figures["iops"])) / rate
    p50 = figures["p50_us"]
    return (row.title, f"{rate:,.0f}", f"{1e9 / rate:,.0f}" if found["icount"] else "-",
            f"{times:.3f}x" if times else "", *verdict(found, times, row.ratio_max), f"{100 * spread:.2f} %",
            f"{p50:.1f}" if p50 is not None else "", count(figures["punts"]), count(figures["bounces"]),
            figures["facts"].get("buffer_mode", ""))


def second_limits(found, shown):
    """What a row is held to beside its peer."""
    for row in shown:
        value = ratio(found, row, row.second[0]) if row.second else None
        if value is not None:
            limit, word = verdict(found, value, row.second[1])
            held = f" (limit {limit}) {word}" if limit else ""
            yield f"{row.title}: {value:.3f}x of {row.second[0]}{held}"


def aligned(lines):
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    for line in lines:
        yield "  ".join(cell.ljust(width) if name in LEFT else cell.rjust(width)
                        for name, cell, width in zip(HEAD, line, widths)).rstrip()


def notes(found):
    names = found["versions"]
    clock = ("one CPU, 1 instruction = 1 virtual ns: IOPS and us are virtual, 1e9 / IOPS is instructions per I/O of "
             "client, kernel and server" if found["icount"] else f"{found['cpus']} CPUs, times by the clock")
    yield f"kernel {found['kernel']}; {clock}"
    yield "; ".join(f"{name} {version}" for name, version in names.items())
    yield ("4 KiB (or as told) random read by t/io_uring (-s32 -c32 -B1 -F1 -p0), 1 queue, depth 128 (128 KiB: 64), "
           f"scheduler none; median of {found['rounds']} round(s); p50 at depth 1")
    yield ("punts: requests given to io_uring's worker threads; bounces: passthrough data copied by the kernel; both "
           "of one more run, by kernel probes")
    yield "every device was first read byte by byte into dirty buffers (null_blk rows: on one that keeps its data)"
    yield f"made by: {found['command']}   {found['date']}"


def render(found):
    shown = [row for row in rows.ROWS if row.name in found["rows"]]
    lines = [HEAD, *(cells(found, row) for row in shown)]
    text = list(aligned(lines))
    text.insert(1, "-" * max(map(len, text)))
    failures = [f"{row.title}: {found['rows'][row.name]['error']}" for row in shown if found["rows"][row.name]["error"]]
    return "\n".join(["", *text, *second_limits(found, shown), "", *notes(found), *failures]) + "\n"
