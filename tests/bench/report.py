# SPDX-License-Identifier: Apache-2.0
"""What bench.py makes of samples: ratios and marks, tables, Markdown."""
import collections
import statistics

LOCAL_NETWORK = ("local", "network")
MARK_SIGNS = {">=": "≥", "<=": "≤"}

# One line of the result. ours, theirs: series of samples (theirs None: the figure itself is judged). mark: what issues
# 3 and 12 ask of the ratio, or of the figure; None: for information. least: a series of what ours cannot be below.
Row = collections.namedtuple("Row", "label ours theirs mark against least", defaults=(None, None, "", None))


def ratio(label, ours, theirs, mark=None, against="", least=None):
    return Row(label, ours, theirs, mark, against, least)


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
        ratio(f"local {d}, 256 MiB", f"bulk.local.{d}", "bulk.memcpy", (">=", 0.95), "memcpy") for d in ("read", "write")
    ]
    rows["bytes"] = [
        ratio(f"local {d}, 4 KiB: the transfer alone", f"bytes.{d}", "bytes.socket", ("<=", 1.5), "bare round trip, Unix socket")
        for d in ("read", "write")
    ]
    rows["own"] = [
        ratio(f"local {d} out of own pointers, 256 MiB", f"own.{d}", "own.memcpy", (">=", 0.55), "memcpy")
        for d in ("read", "write")
    ]
    rows["writes"] = [
        ratio(f"network write, {text}: the transfer alone", f"writes.write.{size}", f"writes.read.{size}", (">=", 0.95), "read")
        for text, size in (("64 KiB", 1 << 16), ("256 KiB", 1 << 18), ("1 MiB", 1 << 20), ("4 MiB", 1 << 22),
                           ("16 MiB", 1 << 24), ("64 MiB", 1 << 26), ("256 MiB", 1 << 28))
    ]
    # Never slower; the rest is noise.
    rows["threads"] = [
        ratio(f"local {d}, {text}: with 2 copy threads", f"threads.two.{d}.{size}", f"threads.none.{d}.{size}",
              (">=", 0.97), "none")
        for d in ("read", "write")
        for text, size in (("1 MiB", 1 << 20), ("16 MiB", 1 << 24), ("256 MiB", 1 << 28))
    ]
    rows["small"] = [
        ratio(f"{s}, 4 KiB: three calls, {text}", f"small.{s}.{how}cycle", f"small.{s}.{how}livez", ("<=", 4),
              "GET /livez", least=f"small.{s}.bare_{bare}cycle")
        for s in LOCAL_NETWORK
        for how, text, bare in (("", "libferry", "library_"), ("raw_", "raw sockets", ""))
    ] + [
        ratio(f"{s}, 4 KiB: three calls, libferry beside raw sockets", f"small.{s}.cycle", f"small.{s}.raw_cycle",
              ("<=", 1.3), "raw sockets")
        for s in LOCAL_NETWORK
    ] + [
        ratio(f"{s}, {text}, on one processor: {what}", f"small.one.{s}.{series}cycle", f"small.one.{s}.{livez}", None,
              "GET /livez")
        for s in LOCAL_NETWORK
        for text, livez, ours, bare in (("libferry", "livez", "", "bare_library_"), ("raw", "raw_livez", "raw_", "bare_"))
        for what, series in (("three calls", ours), ("on the bare libraries", bare))
    ] + [
        ratio(f"{s}, raw: {text}", f"small.{s}.raw_{call}", f"small.{s}.raw_livez", None, "GET /livez")
        for s in LOCAL_NETWORK
        for call, text in (("offer", "POST of the readable"), ("read", "POST of the read, transfer included"),
                           ("wait", "GET that waits for the readable"), ("between", "GET /livez between cycles"))
    ] + [
        ratio(f"{s}, {text}: three calls on the bare libraries", f"small.{s}.bare_{how}cycle", f"small.{s}.{livez}", None,
              "GET /livez")
        for s in LOCAL_NETWORK
        for how, text, livez in (("library_", "libferry", "livez"), ("", "raw", "raw_livez"))
    ] + [
        ratio(f"{s}, {text}: three calls", f"small.{s}.{how}", f"small.{s}.bare_{bare}cycle", None, "bare libraries")
        for s in LOCAL_NETWORK
        for how, text, bare in (("cycle", "libferry", "library_"), ("raw_cycle", "raw", ""))
    ] + [figure(f"{s}, 4 KiB: the transfer alone", f"small.{s}.transfer") for s in LOCAL_NETWORK]
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
            ("write_1000", "1,000 × 16 KiB, write", "transfer", (">=", 0.6), "write_one", "one of 16 MiB"),
            ("1000", "1,000 × 16 KiB", "cycle", None, "one", "one of 16 MiB"),
            ("compact1000", "1,000 × 16 KiB, compact", "cycle", (">=", 0.6), "one", "one of 16 MiB"),
            ("adjacent", "1,000 adjacent", "transfer", None, "one", "one of 16 MiB"),
            ("raw65536", "65,536 × 4 KiB", "transfer", None, "whole", "one of 256 MiB"),
            ("raw65536", "65,536 × 4 KiB", "cycle", None, "whole", "one of 256 MiB"),
            ("compact65536", "65,536 × 4 KiB, compact", "cycle", None, "whole", "one of 256 MiB"),
        )
        for what in ("whole cycle" if part == "cycle" else part,)
    ] + [
        ratio(f"{s}, 65,536 {what}: whole cycle", f"scatter.{s}.{form}65536.cycle", f"scatter.{s}.{form}65536.transfer",
              (">=", 0.8), "the bytes alone")
        for s in LOCAL_NETWORK
        for form, what in (("compact", "pieces of a row"), ("blocks", "blocks"))
    ] + [
        figure("creating 65,536 descriptors", "scatter.create.raw", ("<=", 100)),
        figure("creating 65,536 descriptors, compact", "scatter.create.compact", ("<=", 100)),
    ]
    rows["scale"] = [
        ratio(f"{verb}, many live operations", f"scale.{verb}.many", f"scale.{verb}.few", ("<=", 1.2), "100 live")
        for verb in ("create", "find", "delete")
    ] + [
        ratio("wake, many parked waits", "scale.wake.many", "scale.wake.few", ("<=", 1.2), "100 parked"),
        ratio("the same, of a bare server", "scale.wake.bare.many", "scale.wake.bare.few", None, "100 parked"),
        ratio("wake, the same 100 of many, again", "scale.wake.again", "scale.wake.few_again", None, "100 parked"),
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
            figure(f"{s}: link pages of a peer, both sides'", f"peers.{s}.shared"),
            figure(f"{s}: open files of a peer", f"peers.{s}.files"),
            figure(f"{s}: sockets of a peer", f"peers.{s}.sockets"),
            figure(f"{s}: processor time of an idle peer, each second", f"peers.{s}.idle"),
            figure(f"{s}: TCP segments of an idle peer, each second", f"peers.{s}.segments"),
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
    rows["batch"] = [
        row
        for s in LOCAL_NETWORK
        for row in (
            figure(f"{s}, 64 × 4 KiB: a batch, and one wait", f"batch.{s}.two", ("<=", 1.5) if s == "local" else None),
            figure(f"{s}, 64 × 4 KiB: a batch that waits", f"batch.{s}.one", ("<=", 1.5) if s == "local" else None),
            figure(f"{s}, 64 × 4 KiB: two calls each", f"batch.{s}.each"),
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
    rows["inside"] = [
        figure("workers inside two C programs, 4 KiB: create to both ends seen", "inside.c", ("<=", 60)),
        figure("the same from asyncio, by ferry.nixl_connect", "inside.asyncio", ("<=", 150)),
        ratio("the same from asyncio", "inside.asyncio", "inside.messages", None, "two programs with its messages alone"),
    ]
    rows["nixl"] = [
        ratio(label, f"nixl.{size}.ours", f"nixl.{size}.{series}", None, against)
        for label, size in (
            ("workers inside two C programs, 4 KiB: create to both ends seen", "small"),
            ("local read, 256 MiB, through REST", "bulk"),
        )
        for series, against in (("theirs", "NIXL, which polls"), ("theirs_shm", "the same, UCX_POSIX_ERROR_HANDLING=y"))
    ]
    rows["start"] = [
        row
        for s in LOCAL_NETWORK
        for row in (
            figure(f"{s}: start to ready line", f"start.{s}.ready", ("<=", 100)),
            figure(f"{s}: resident memory, idle", f"start.{s}.resident", ("<=", 12) if s == "local" else None),
            figure(f"{s}: of it its own (not shared)", f"start.{s}.own"),
            figure(f"{s}: first connection", f"start.{s}.connect"),
            ratio(f"{s}: first transfer, 4 KiB", f"start.{s}.first", f"start.{s}.later", None, "later ones"),
        )
    ]
    rows["regions"] = [
        ratio("making a large region", "regions.make", "regions.populate", (">=", 0.8), "MADV_POPULATE_WRITE alone"),
        ratio("GET /livez meanwhile, p99", "regions.livez.busy", "regions.livez.quiet", ("<=", 2), "before"),
        figure("the answer to its DELETE", "regions.delete"),
        ratio("making a region of 4 KiB", "regions.small", "regions.small.livez", None, "GET /livez"),
    ]
    rows["fetch"] = [ratio("ferry fetch of 1 GiB into tmpfs", "fetch.ferry", "fetch.cp", ("<=", 1.3), "cp")]
    rows["content"] = [
        ratio(f"{scheme}: download of a readable, one connection", f"content.{scheme}", f"content.{scheme}.bare",
              (">=", 0.8), "bare libmicrohttpd")
        for scheme in ("http", "https")
    ]
    rows["references"] = [
        ratio("bare rendezvous, tcp", "references.tcp", "references.perftest.tcp", None,
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
    """A line of the result. One that was not measured is None; with a mark it says so instead, lest nobody miss it."""
    ours, theirs = samples.get(row.ours), samples.get(row.theirs)
    result = {"measurement": measurement, "label": row.label}
    if row.mark:
        result["mark"] = {"sign": row.mark[0], "value": row.mark[1]}
    pairs = ratios(ours, theirs) if ours and theirs else None
    if not ours or (row.theirs and not pairs):
        return result if row.mark else None
    result.update(unit=units.get(row.ours, "us"), ours=summary(ours))
    judged = result["ours"]["median"]
    if row.theirs:
        result.update(against=row.against, theirs=summary(theirs), ratio=summary(pairs))
        judged = result["ratio"]["median"]
        least = samples.get(row.least)
        if least:
            result["least"] = statistics.median(ratios(least, theirs))
    if row.mark:
        result["holds"] = judged >= row.mark[1] if row.mark[0] == ">=" else judged <= row.mark[1]
    return result


def count_marks(results):
    """(held, measured, not measured)"""
    marked = [r for r in results if "mark" in r]
    measured = [r for r in marked if "holds" in r]
    return sum(r["holds"] for r in measured), len(measured), len(marked) - len(measured)


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


def judged_text(result):
    """What is compared with the mark."""
    if "ours" not in result:
        return "not measured"
    return number(result["ratio"]["median"]) if "ratio" in result else (
        number(result["ours"]["median"]) + (f" {result['unit']}" if result["unit"] != "ratio" else ""))


def mark_text(result):
    mark = result.get("mark")
    if not mark:
        return ""
    unit = "" if "ratio" in result or result.get("unit", "ratio") == "ratio" else f" {result['unit']}"
    return f"{MARK_SIGNS[mark['sign']]} {number(mark['value'])}{unit}"


def verdict(holds, least=()):
    """least: what could have been measured at the least, run by run."""
    text = {True: "yes", False: "**no**", None: "–"}[holds]
    if holds is False and least:
        text += f" (bare libraries: {', '.join(number(x) for x in least)})"
    return text


def cells(result):
    """label, ours, theirs, ratio, mark, verdict"""
    if "ours" not in result:
        return result["label"], "not measured", "", "", mark_text(result), verdict(None)
    return (
        result["label"],
        spread(result["ours"], result["unit"]),
        f"{number(result['theirs']['median'])} {result['against']}" if "theirs" in result else "",
        spread(result["ratio"]) if "ratio" in result else "",
        mark_text(result),
        verdict(result["holds"], [result["least"]] if "least" in result else ()) if "mark" in result else "",
    )


HEADS = ("", "measured", "beside", "ratio", "mark", "holds")


def print_rows(results, out):
    lines = [HEADS] + [[text.replace("**no**", "NO") for text in cells(r)] for r in results]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADS))]
    for line in lines:
        print("  " + "  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip(), file=out)


def markdown_table(heads, lines):
    return ["| " + " | ".join(heads) + " |", "| --- " * len(heads) + "|"] + [
        "| " + " | ".join(line) + " |" for line in lines] + [""]


def marks_of_runs(runs):
    """Lines of: what, mark, what each run found, whether it held in all."""
    lines = []
    for first in runs[0]["results"]:
        if "mark" not in first:
            continue
        found = [next((r for r in run["results"] if (r["measurement"], r["label"], r.get("mark")) ==
                       (first["measurement"], first["label"], first["mark"]) and
                       r.get("against") in (None, first.get("against"))), first) for run in runs]
        holds = [r.get("holds") for r in found]
        against = f", beside {first['against']}" if "against" in first else ""
        lines.append([first["label"] + against, mark_text(first)] + [judged_text(r) for r in found] +
                     [verdict(None if None in holds else all(holds), [r["least"] for r in found if "least" in r])])
    return lines


def sentence(text):
    return text[:1].upper() + text[1:] + "."


def sections_of_gpus(page):
    """What scripts/gpu-check has written into the page, which is to stay."""
    parts = ("\n" + page).split("\n## ")[1:]
    return "".join(f"\n## {part.rstrip()}\n" for part in parts if part.startswith("Memory on a GPU: "))


def markdown(report, plot):
    """The page of results. plot: how it names the picture, None = there is none."""
    runs, last = report["runs"], report["runs"][-1]
    lines = marks_of_runs(runs)
    held = sum(line[-1] == verdict(True) for line in lines)
    missing = sum(line[-1] == verdict(None) for line in lines)
    times = "" if len(runs) == 1 else f", {len(runs)} runs in a row"
    out = [f"# Results of `scripts/bench --{report['mode']}`{times}", "",
           f"{held} of {len(lines) - missing} marks hold" + (" in every run" if len(runs) > 1 else "") +
           (f"; {missing} more were not measured" if missing else "") + ".", ""]
    facts = list(report["machine"].items()) + [("date", ", ".join(run["date"] for run in runs))]
    facts += list(report["versions"].items()) + [("state of the machine", report["state"])]
    out += markdown_table(("", ""), facts)
    if plot:
        out += [f"![Throughput over size]({plot})", ""]
    out += ["## Marks", "", "What is asked for, and the median of each run: of a ratio the median of the ratios of",
            "samples that were taken side by side.", ""]
    heads = [f"run {i + 1}" for i in range(len(runs))] if len(runs) > 1 else ["measured"]
    out += markdown_table(["", "mark"] + heads + ["holds"], lines)
    out += ["## Details" + (" of the last run" if len(runs) > 1 else ""), "", "Median [quartiles].", ""]
    for name in dict.fromkeys(r["measurement"] for r in last["results"]):
        out += [f"### {name}", "", sentence(report["descriptions"].get(name, "")), ""]
        out += markdown_table(HEADS, [cells(r) for r in last["results"] if r["measurement"] == name])
    notes = list(dict.fromkeys(text for run in runs for text in run["notes"]))
    if notes:
        out += ["## Notes", ""] + [f"- {text}" for text in notes]
    return "\n".join(out).rstrip() + "\n"
