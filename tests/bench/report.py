# SPDX-License-Identifier: Apache-2.0
"""What bench.py makes of samples: ratios and marks, tables, Markdown, a plot."""
import collections
import os
import shutil
import statistics
import subprocess

LOCAL_NETWORK = ("local", "network")
MARK_SIGNS = {">=": "≥", "<=": "≤"}

# One line of the result. ours, theirs: series of samples (theirs None: the figure itself is judged). mark: what issue
# 3 asks of the ratio, or of the figure; None: for information.
Row = collections.namedtuple("Row", "label ours theirs mark against", defaults=(None, None, ""))


def ratio(label, ours, theirs, mark=None, against=""):
    return Row(label, ours, theirs, mark, against)


def figure(label, ours, mark=None):
    return Row(label, ours, None, mark)


def table():
    """The lines of each measurement, in order."""
    rows = collections.OrderedDict()
    rows["bulk"] = [
        ratio(f"network {d}, 256 MiB", f"bulk.network.{d}", "bulk.rendezvous.tcp", (">=", 0.95), "bare rendezvous, tcp")
        for d in ("read", "write")
    ] + [
        ratio(f"network {d}, 256 MiB", f"bulk.network.{d}", "bulk.get", (">=", 2.5), "one ucp_get, tcp")
        for d in ("read", "write")
    ] + [
        ratio(f"local {d}, 256 MiB", f"bulk.local.{d}", "bulk.memcpy", (">=", 0.85), "memcpy") for d in ("read", "write")
    ] + [
        ratio(f"local {d}, 256 MiB", f"bulk.local.{d}", "bulk.rendezvous.posix", None, "bare rendezvous, posix")
        for d in ("read", "write")
    ]
    rows["small"] = [
        row
        for s in LOCAL_NETWORK
        for row in (
            ratio(f"{s}, 4 KiB: three calls, libferry", f"small.{s}.cycle", f"small.{s}.livez", ("<=", 4), "GET /livez"),
            ratio(f"{s}, 4 KiB: three calls, raw sockets", f"small.{s}.raw_cycle", f"small.{s}.raw_livez", ("<=", 4),
                  "GET /livez"),
        ) + tuple(
            ratio(f"{s}, raw: {call}", f"small.{s}.raw_{what}", f"small.{s}.raw_livez", None, "GET /livez")
            for what, call in (("offer", "POST of the readable"), ("read", "POST of the read, with its transfer"),
                               ("wait", "GET that waits for the readable"))
        ) + (figure(f"{s}, 4 KiB: the transfer alone", f"small.{s}.transfer"),)
        )
    ]
    rows["wait"] = [
        figure(f"{s}: last byte to the {side} waiter's answer", f"wait.{s}.{side}", ("<=", 100))
        for s in LOCAL_NETWORK
        for side in ("active", "passive")
    ] + [figure(f"{s}: POST beyond duration_us", f"wait.{s}.beyond") for s in LOCAL_NETWORK]
    # Plain lists are judged on the transfer: their JSON alone is a megabyte for 16 MiB.
    rows["scatter"] = [
        ratio(f"{s}, {text}: {what}", f"scatter.{s}.{n}.{part}", f"scatter.{s}.{beside}.{part}", mark, against)
        for s in LOCAL_NETWORK
        for n, text, part, mark, beside, against in (
            ("1000", "1,000 × 16 KiB", "transfer", (">=", 0.6), "one", "one of 16 MiB"),
            ("1000", "1,000 × 16 KiB", "cycle", None, "one", "one of 16 MiB"),
            ("compact1000", "1,000 × 16 KiB, compact", "cycle", (">=", 0.6), "one", "one of 16 MiB"),
            ("adjacent", "1,000 adjacent", "transfer", None, "one", "one of 16 MiB"),
            ("raw65536", "65,536 × 4 KiB", "transfer", None, "whole", "one of 256 MiB"),
            ("raw65536", "65,536 × 4 KiB", "cycle", None, "whole", "one of 256 MiB"),
            ("compact65536", "65,536 × 4 KiB, compact", "cycle", None, "whole", "one of 256 MiB"),
        )
        for what in ("whole cycle" if part == "cycle" else part,)
    ] + [
        figure("creating 65,536 descriptors", "scatter.create.raw", ("<=", 100)),
        figure("creating 65,536 descriptors, compact", "scatter.create.compact", ("<=", 100)),
    ]
    rows["scale"] = [
        ratio(f"{verb}, many live operations", f"scale.{verb}.many", f"scale.{verb}.few", ("<=", 1.2), "100 live")
        for verb in ("create", "find", "delete")
    ] + [
        ratio("wake, many parked waits", "scale.wake.many", "scale.wake.few", ("<=", 1.2), "100 parked"),
        figure("memory of an operation", "scale.memory.operation", ("<=", 1024)),
        figure("memory of a parked wait", "scale.memory.wait", ("<=", 20480)),
    ]
    rows["peers"] = [
        row
        for s in LOCAL_NETWORK
        for row in (
            ratio(f"{s}: 4 KiB from one of many peers", f"peers.{s}.transfer.many", f"peers.{s}.transfer.few",
                  ("<=", 1.2), "of 100 peers"),
            ratio(f"{s}: first transfer from one more peer", f"peers.{s}.connect.many", f"peers.{s}.connect.few",
                  ("<=", 1.2), "of 100 peers"),
            figure(f"{s}: memory of a peer's endpoint", f"peers.{s}.memory"),
        )
    ]
    rows["many"] = [
        row
        for s in LOCAL_NETWORK
        for row in (
            ratio(f"{s}, 64 at once: together", f"many.{s}.together", f"many.{s}.alone", (">=", 0.95), "one alone"),
            figure(f"{s}, 64 at once: slowest ÷ mean", f"many.{s}.fairness", (">=", 0.5)),
        )
    ]
    rows["interference"] = [
        row
        for s in LOCAL_NETWORK
        for row in (
            ratio(f"{s}, 4 KiB during bulk: what it adds", f"interference.{s}.added", f"interference.{s}.chunk",
                  ("<=", 2), "a chunk's time"),
            ratio(f"{s}, 4 KiB during bulk: operation", f"interference.{s}.busy.operation",
                  f"interference.{s}.alone.operation", None, "alone"),
            ratio(f"{s}, 4 KiB during bulk: three calls", f"interference.{s}.busy.cycle",
                  f"interference.{s}.alone.cycle", None, "alone"),
        )
    ]
    rows["control"] = [
        ratio("GET operation", "control.get", "control.get.bare", (">=", 0.8), "bare libmicrohttpd"),
        ratio("create + delete", "control.create_delete", "control.create_delete.bare", (">=", 0.4),
              "bare libmicrohttpd, GET"),
    ]
    rows["idle"] = [figure(f"{s}: CPU of two workers in 5 s", f"idle.{s}.cpu", ("<=", 10)) for s in LOCAL_NETWORK]
    rows["start"] = [
        row
        for s in LOCAL_NETWORK
        for row in (
            figure(f"{s}: start to ready line", f"start.{s}.ready", ("<=", 100)),
            figure(f"{s}: resident memory, idle", f"start.{s}.resident"),
            figure(f"{s}: of it its own (not shared)", f"start.{s}.own"),
            figure(f"{s}: first connection", f"start.{s}.connect"),
            ratio(f"{s}: first transfer, 4 KiB", f"start.{s}.first", f"start.{s}.later", None, "later ones"),
        )
    ]
    rows["references"] = [
        ratio("bare rendezvous, tcp", "references.tcp", "references.perftest.tcp", None,
              "ucx_perftest am_bw, one cached MiB"),
        ratio("bare rendezvous, posix", "references.posix", "references.perftest.posix", None,
              "ucx_perftest am_bw, one cached MiB"),
        ratio("one ucp_get, tcp", "references.get", "references.perftest.get", None, "ucx_perftest get"),
        ratio("bare rendezvous, tcp", "references.tcp", "references.iperf3", None, "iperf3"),
    ]
    rows["sizes"] = []
    return rows


# ---- statistics ----


def quartiles(values):
    if len(values) < 3:
        return min(values), max(values)
    q = statistics.quantiles(values, n=4, method="inclusive")
    return q[0], q[2]


def summary(values):
    low, high = quartiles(values)
    return {"median": statistics.median(values), "q1": low, "q3": high, "min": min(values), "max": max(values),
            "n": len(values)}


def derive(samples):
    """Series that are made of others."""
    for side in LOCAL_NETWORK:
        alone = samples.get(f"interference.{side}.alone.operation")
        busy = samples.get(f"interference.{side}.busy.operation")
        if alone and busy:
            samples[f"interference.{side}.added"] = [max(b - a, 0) for a, b in zip(alone, busy)]


def ratios(ours, theirs):
    """Pair by pair, because the machine may drift; of the medians where samples were not taken in pairs."""
    if len(ours) != len(theirs):
        ours, theirs = [statistics.median(ours)], [statistics.median(theirs)]
    return [a / b for a, b in zip(ours, theirs) if b > 0]


def evaluate(measurement, row, samples, units):
    """A line of the result, or None when it was not measured."""
    ours, theirs = samples.get(row.ours), samples.get(row.theirs)
    if not ours or (row.theirs and not theirs):
        return None
    result = {"measurement": measurement, "label": row.label, "unit": units.get(row.ours, "us"), "ours": summary(ours)}
    judged = result["ours"]["median"]
    if row.theirs:
        pairs = ratios(ours, theirs)
        if not pairs:
            return None
        result.update(against=row.against, theirs=summary(theirs), ratio=summary(pairs))
        judged = result["ratio"]["median"]
    if row.mark:
        sign, mark = row.mark
        result.update(mark={"sign": sign, "value": mark}, holds=judged >= mark if sign == ">=" else judged <= mark)
    return result


# ---- text ----


def number(value):
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def spread(stats, unit=""):
    text = number(stats["median"]) + (f" {unit}" if unit and unit != "ratio" else "")
    return text + f" [{number(stats['q1'])}–{number(stats['q3'])}]"


def cells(result):
    """label, ours, theirs, ratio, mark, verdict"""
    mark = result.get("mark")
    sign = f"{MARK_SIGNS[mark['sign']]} {number(mark['value'])}" if mark else ""
    return (
        result["label"],
        spread(result["ours"], result["unit"]),
        f"{number(result['theirs']['median'])} {result['against']}" if "theirs" in result else "",
        spread(result["ratio"]) if "ratio" in result else "",
        sign,
        ("yes" if result["holds"] else "NO") if mark else "",
    )


HEADS = ("", "measured", "beside", "ratio", "mark", "holds")


def print_rows(results, out):
    lines = [HEADS] + [cells(r) for r in results]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADS))]
    for line in lines:
        print("  " + "  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip(), file=out)


def markdown(report, plot):
    out = ["# Results of `scripts/bench --" + report["mode"] + "`", ""]
    facts = report["machine"]
    out += ["| | |", "| --- | --- |"] + [f"| {k} | {v} |" for k, v in facts.items()]
    out += [f"| date | {report['date']} |"] + [f"| {k} | {v} |" for k, v in report["versions"].items()]
    out += [f"| state of the machine | {report['state']} |", ""]
    out += ["Median [quartiles]. A ratio is the median of the ratios of samples taken side by side. \"Holds\" compares",
            "it, or the figure itself, with the mark of issue 3.", ""]
    measured = list(dict.fromkeys(r["measurement"] for r in report["results"]))
    for name in measured:
        out += [f"## {name}", "", report["descriptions"].get(name, ""), "", "| " + " | ".join(HEADS) + " |",
                "| --- | --- | --- | --- | --- | --- |"]
        out += ["| " + " | ".join(cells(r)) + " |" for r in report["results"] if r["measurement"] == name] + [""]
    if plot:
        out += ["## sizes", "", f"![throughput over size]({os.path.basename(plot)})", ""]
    if report["notes"]:
        out += ["## Notes", ""] + [f"- {text}" for text in report["notes"]] + [""]
    return "\n".join(out)


# ---- plot ----

CURVES = (
    ("sizes.local.read", "local read", 1), ("sizes.local.write", "local write", 2),
    ("sizes.memcpy", "memcpy", 3), ("sizes.rendezvous.posix", "bare rendezvous, posix", 4),
    ("sizes.network.read", "network read", 5), ("sizes.network.write", "network write", 6),
    ("sizes.rendezvous.tcp", "bare rendezvous, tcp", 7), ("sizes.get", "one ucp\\_get, tcp", 8),
)


def plot_sizes(samples, target):
    """True when gnuplot made the SVG."""
    blocks, plots = [], []
    for prefix, title, style in CURVES:
        points = sorted((int(name.rsplit(".", 1)[1]), statistics.median(values)) for name, values in samples.items()
                        if name.rsplit(".", 1)[0] == prefix)
        if not points:
            continue
        tag = f"$d{style}"
        blocks += [f"{tag} << EOD"] + [f"{size} {value}" for size, value in points] + ["EOD"]
        dashed = " dt 2" if title.startswith(("bare", "one", "mem")) else ""
        plots.append(f"{tag} using 1:2 with linespoints lc {style} lw 2 pt 7 ps 0.4{dashed} title '{title}'")
    if not plots or not shutil.which("gnuplot"):
        return False
    ticks = ", ".join(f"'{text}' {size}" for text, size in (
        ("4K", 4096), ("64K", 65536), ("1M", 1 << 20), ("16M", 1 << 24), ("256M", 1 << 28), ("1G", 1 << 30)))
    script = blocks + [
        "set terminal svg size 860,520 font 'sans-serif,13' background 'white'",
        f"set output '{target}'",
        "set title 'Throughput of a whole transfer, all HTTP calls included'",
        "set logscale x 2", "set logscale y 10", f"set xtics ({ticks})", "set xlabel 'bytes'", "set ylabel 'GB/s'",
        "set grid", "set key outside right center", "plot " + ", ".join(plots),
    ]
    subprocess.run(["gnuplot"], input="\n".join(script) + "\n", text=True, check=True)
    return True
