# SPDX-License-Identifier: Apache-2.0
"""What bench.py makes of samples: ratios and marks, tables, Markdown."""
import collections
import statistics

MARK_SIGNS = {">=": "≥", "<=": "≤"}

# One line of the result. ours, theirs: series of samples (theirs None: the figure itself is judged). mark: what is asked
# of the ratio, or of the figure; None: for information.
Row = collections.namedtuple("Row", "measurement label ours theirs against mark")


def ratio(measurement, label, ours, theirs, against, mark=None):
    return Row(measurement, label, f"{measurement}.{ours}", f"{measurement}.{theirs}", against, mark)


def figure(measurement, label, ours, mark=None):
    return Row(measurement, label, f"{measurement}.{ours}", None, "", mark)


TABLE = (
    ratio("bulk", "local read, 256 MiB", "local.read", "local.reference", "memcpy", (">=", 0.95)),
    ratio("bulk", "local write, 256 MiB", "local.write", "local.reference", "memcpy", (">=", 0.95)),
    ratio("bulk", "network read, 256 MiB", "network.read", "network.reference", "bare rendezvous, tcp", (">=", 0.95)),
    ratio("bulk", "network write, 256 MiB", "network.write", "network.reference", "bare rendezvous, tcp", (">=", 0.95)),
    ratio("own", "local read out of own pointers, 256 MiB", "read", "memcpy", "memcpy", (">=", 0.55)),
    ratio("writes", "network write, 64 KiB", "write.65536", "read.65536", "read", (">=", 0.95)),
    ratio("writes", "network write, 16 MiB", "write.16777216", "read.16777216", "read", (">=", 0.95)),
    # Never slower; the rest is noise.
    ratio("threads", "local read, 1 MiB: with 2 copy threads", "two.1048576", "none.1048576", "none", (">=", 0.97)),
    ratio("threads", "local read, 256 MiB: with 2 copy threads", "two.268435456", "none.268435456", "none", (">=", 0.97)),
    ratio("bytes", "local read, 4 KiB: the transfer alone", "read", "socket", "bare round trip, Unix socket", ("<=", 1.5)),
    ratio("bytes", "local write, 4 KiB: the transfer alone", "write", "socket", "bare round trip, Unix socket", ("<=", 1.5)),
    ratio("small", "three calls by libferry", "libferry", "libcurl", "bare libcurl and json-c", ("<=", 1.15)),
    ratio("small", "three calls by raw sockets", "worker", "libmicrohttpd", "bare libmicrohttpd", ("<=", 1.6)),
    figure("inside", "two C programs: create to both ends seen", "c", ("<=", 60)),
    figure("inside", "the same from asyncio, by ferry.nixl_connect", "asyncio", ("<=", 150)),
    ratio("nixl", "workers inside two C programs, 4 KiB", "small.ours", "small.theirs", "NIXL, which polls"),
    ratio("nixl", "local read, 256 MiB, through REST", "bulk.ours", "bulk.theirs", "NIXL, which polls"),
    figure("batch", "64 × 4 KiB: a batch that waits", "one", ("<=", 1.5)),
    # Plain lists are judged on the transfer: their JSON alone is a megabyte for 16 MiB.
    ratio("scatter", "local, 1,000 × 16 KiB: transfer", "local.1000", "local.one", "one of 16 MiB", (">=", 0.6)),
    ratio("scatter", "network, 1,000 × 16 KiB: transfer", "network.1000", "network.one", "one of 16 MiB", (">=", 0.6)),
    ratio("scatter", "local, 65,536 blocks of 4 KiB: whole cycle", "local.blocks.cycle", "local.blocks.bytes",
          "the bytes alone", (">=", 0.8)),
    ratio("scatter", "network, 65,536 blocks of 4 KiB: whole cycle", "network.blocks.cycle", "network.blocks.bytes",
          "the bytes alone", (">=", 0.8)),
    figure("scatter", "creating 65,536 plain descriptors", "create", ("<=", 200)),
    ratio("scale", "create, many live operations", "create.many", "create.few", "100 live", ("<=", 1.2)),
    ratio("scale", "wake, many parked waits", "wake.many", "wake.few", "100 parked", ("<=", 1.2)),
    figure("scale", "memory of an operation", "memory.operation", ("<=", 1024)),
    figure("scale", "memory of a parked wait", "memory.wait", ("<=", 20480)),
    figure("idle", "local: processor time of two workers in 5 s", "local.cpu", ("<=", 10)),
    figure("idle", "network: processor time of two workers in 5 s", "network.cpu", ("<=", 10)),
    figure("idle", "local: resident memory", "resident", ("<=", 12)),
    figure("idle", "local: of it its own (not shared)", "own"),
    ratio("fetch", "ferry fetch of 1 GiB into tmpfs", "ferry", "cp", "cp", ("<=", 1.3)),
    ratio("content", "download of a readable, one connection", "ferry", "bare", "bare libmicrohttpd", (">=", 0.8)),
    ratio("regions", "making a large region", "make", "populate", "MADV_POPULATE_WRITE alone", (">=", 0.8)),
)


# ---- statistics ----


def summary(values):
    quartiles = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 2 else sorted(values)
    return {"median": statistics.median(values), "q1": quartiles[0], "q3": quartiles[-1]}


def clean_rounds(rounds, disturbed):
    """The rounds that no disturbed time (begin, end, …) touches. The first one is what lies before all rounds."""
    return rounds[:1] + [r for r in rounds[1:]
                         if not any(begin < r["end"] and r["begin"] < end for begin, end, *_ in disturbed)]


def pool(rounds):
    """{series: values}, in the order in which they came."""
    samples = {}
    for entry in rounds:
        for series, value in entry["samples"]:
            samples.setdefault(series, []).append(value)
    return samples


def ratios(ours, theirs):
    """Pair by pair, because the machine may drift; of the medians where samples were not taken in pairs."""
    if len(ours) != len(theirs):
        ours, theirs = [statistics.median(ours)], [statistics.median(theirs)]
    return [a / b for a, b in zip(ours, theirs) if b > 0]


def evaluate(row, samples, units):
    """What a run found for a line: {"row"}, and more where it was measured. None: not measured, and no mark misses it."""
    ours, theirs = samples.get(row.ours), samples.get(row.theirs)
    pairs = ratios(ours, theirs) if ours and theirs else None
    result = {"row": row}
    if not ours or (row.theirs and not pairs):
        return result if row.mark else None
    result.update(unit=units.get(row.ours, "us"), ours=summary(ours))
    if row.theirs:
        result.update(theirs=summary(theirs), ratio=summary(pairs))
    if row.mark:
        judged = result["ratio" if row.theirs else "ours"]["median"]
        result["holds"] = judged >= row.mark[1] if row.mark[0] == ">=" else judged <= row.mark[1]
    return result


# ---- text ----


def number(value):
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def spread(stats):
    return f"{number(stats['median'])} [{number(stats['q1'])}–{number(stats['q3'])}]"


def found(result):
    """What a run found: "0.979 [0.97–1.02]: 11.6 GB/s beside 11.9", "33.4 [32–35] us"."""
    if not result or "ours" not in result:
        return "not measured"
    if "ratio" not in result:
        return f"{spread(result['ours'])} {result['unit']}"
    return (f"{spread(result['ratio'])}: {number(result['ours']['median'])} {result['unit']} "
            f"beside {number(result['theirs']['median'])}")


def label(row):
    return row.label + (f", beside {row.against}" if row.against else "")


def mark(row, results):
    unit = next((f" {r['unit']}" for r in results if r and "ours" in r and "ratio" not in r), "")
    return f"{MARK_SIGNS[row.mark[0]]} {number(row.mark[1])}{unit}" if row.mark else ""


def verdict(row, results):
    """Of all runs: a mark that one of them missed is missed."""
    if not row.mark:
        return ""
    holds = [(result or {}).get("holds") for result in results]
    return "**no**" if False in holds else "not measured" if None in holds else "yes"


def lines_of(runs):
    """[(row, cells)]: for each line of the table that any run has, what it is, its mark, what each run found, whether it
    held."""
    lines = []
    for row in TABLE:
        results = [next((r for r in run["results"] if r["row"] == row), None) for run in runs]
        if any(results):
            lines.append((row, [label(row), mark(row, results)] + [found(r) for r in results] + [verdict(row, results)]))
    return lines


def heads(n):
    return ["", "mark"] + ([f"run {i + 1}" for i in range(n)] if n > 1 else ["measured"]) + ["holds"]


def print_lines(lines, out):
    """For a terminal: the cells of one run, aligned."""
    lines = [heads(1)] + [[text.strip("*") for text in cells] for _, cells in lines]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        print("  " + "  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip(), file=out)


def held(lines, where=""):
    """How many marks hold, in words."""
    verdicts = [cells[-1] for row, cells in lines if row.mark]
    missing = verdicts.count("not measured")
    return (f"{verdicts.count('yes')} of {len(verdicts) - missing} marks hold{where}" +
            (f"; {missing} more were not measured" if missing else "") + ".")


def markdown_table(names, lines):
    return ["| " + " | ".join(names) + " |", "| --- " * len(names) + "|"] + [
        "| " + " | ".join(line) + " |" for line in lines] + [""]


def sections_of_gpus(page):
    """What scripts/gpu-check has written into the page, which is to stay."""
    parts = ("\n" + page).split("\n## ")[1:]
    return "".join(f"\n## {part.rstrip()}\n" for part in parts if part.startswith("Memory on a GPU: "))


def markdown(report):
    """The page of results."""
    runs, lines = report["runs"], lines_of(report["runs"])
    times = f", {len(runs)} runs in a row" if len(runs) > 1 else ""
    out = [f"# Results of `scripts/bench --{report['mode']}`{times}", "",
           held(lines, " in every run" if len(runs) > 1 else ""), ""]
    facts = list(report["machine"].items()) + [("date", ", ".join(run["date"] for run in runs))]
    facts += list(report["versions"].items()) + [("state of the machine", report["state"])]
    out += markdown_table(("", ""), facts)
    out += ["Median [quartiles]; beside something the median of the ratios of samples that were taken side by side.", ""]
    for name in dict.fromkeys(row.measurement for row, _ in lines):
        what = report["descriptions"].get(name, "")
        out += [f"## {name}", "", what[:1].upper() + what[1:] + ".", ""]
        out += markdown_table(heads(len(runs)), [cells for row, cells in lines if row.measurement == name])
    notes = list(dict.fromkeys(text for run in runs for text in run["notes"]))
    if notes:
        out += ["## Notes", ""] + [f"- {text}" for text in notes]
    return "\n".join(out).rstrip() + "\n"
