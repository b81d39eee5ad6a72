#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs ferry-bench, measurement by measurement, and reports. Called by scripts/bench."""
import argparse
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import time

from report import derive, evaluate, markdown, plot_sizes, print_rows, table

# ---- the machine ----


def cpu_times():
    """Seconds of CPU time since boot: used by processes (all of them), stolen by the host."""
    with open("/proc/stat", encoding="ascii") as f:
        fields = [int(x) for x in f.readline().split()[1:]]
    hz = os.sysconf("SC_CLK_TCK")
    user, nice, system, _idle, _iowait, _irq, _softirq, steal = fields[:8]
    return (user + nice + system) / hz, steal / hz


class Noise:
    """How much of the processors went to others since the start, in processors."""

    def __init__(self):
        self.wall, (self.used, self.stolen), self.own = time.monotonic(), cpu_times(), self.own_time()

    @staticmethod
    def own_time():
        return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF,
                                                                            resource.RUSAGE_CHILDREN)))

    def measure(self):
        wall, (used, stolen) = time.monotonic() - self.wall, cpu_times()
        others = max(used - self.used - (self.own_time() - self.own), 0) / wall
        return others, (stolen - self.stolen) / wall


OTHERS_MAX = 0.10  # of one processor
STEAL_MAX = 0.05


def describe_noise(others, steal):
    return f"others used {others * 100:.0f} % of a processor, the host took {steal * 100:.0f} %"


def is_noisy(others, steal):
    return others > OTHERS_MAX or steal > STEAL_MAX


def await_quiet(tries=3, seconds=2):
    """(quiet, text): what others did in the quietest of some moments; the build may have just ended."""
    best = None
    for _ in range(tries):
        noise = Noise()
        time.sleep(seconds)
        now = noise.measure()
        best = min(best or now, now, key=sum)
        if not is_noisy(*best):
            break
    load = os.getloadavg()[0]
    return not is_noisy(*best), f"before: {describe_noise(*best)}; load average {load:.2f}"


def first_line(command):
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        return ((run.stdout or run.stderr).splitlines() or [""])[0].strip()
    except OSError:
        return ""


def machine_facts():
    model = ""
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return {"processor": f"{model or platform.machine()}, {os.cpu_count()} cores", "memory": f"{memory:.0f} GiB",
            "kernel": platform.release()}


def versions(ferryd):
    found = {"ferry": first_line([ferryd, "--version"])}
    for name in ("ucx", "libmicrohttpd", "libcurl", "json-c"):
        found[name] = first_line(["pkg-config", "--modversion", name])
    return {k: v for k, v in found.items() if v}


# ---- running ----


class Terminal:
    """Progress on standard error, in one line when it is a terminal."""

    def __init__(self):
        self.live = sys.stderr.isatty()

    def show(self, text):
        if self.live:
            print("\r\033[K" + text, end="", file=sys.stderr, flush=True)

    def clear(self):
        self.show("")


def measure(program, name, mode, samples, units, notes, terminal):
    """Runs one measurement; its exit status."""
    with subprocess.Popen([program, name, mode], stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
        try:
            for line in child.stdout:
                kind, text = line[0], line[2:].rstrip("\n")
                if kind == "S":
                    series, unit, value = text.split(" ")
                    samples.setdefault(series, []).append(float(value))
                    units[series] = unit
                elif kind == "P":
                    terminal.show(f"{name}: {text}")
                elif kind == "N":
                    notes.append(text)
        except BaseException:
            child.send_signal(signal.SIGTERM)  # it ends its workers
            child.wait()
            raise
        finally:
            terminal.clear()
    return child.returncode


def descriptions(program):
    out = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout
    return dict(line.split(None, 1) for line in out.splitlines())


def run(options, names, report):
    """Runs the measurements; True when all ended well."""
    rows, terminal, good, disturbed = table(), Terminal(), True, []
    samples, units = {}, {}
    for name in names:
        noise = Noise()
        print(f"{name}: {report['descriptions'][name]}", flush=True)
        status = measure(options.program, name, options.mode, samples, units, report["notes"], terminal)
        if status != 0:
            print(f"  failed ({status})", flush=True)
            good = False
        derive(samples)
        results = [r for r in (evaluate(name, row, samples, units) for row in rows[name]) if r]
        report["results"] += results
        if results:
            print_rows(results, sys.stdout)
        others, steal = noise.measure()
        if is_noisy(others, steal):
            disturbed.append(name)
            report["notes"].append(f"{name} was disturbed: {describe_noise(others, steal)}")
        print(flush=True)
    report["samples"] = {name: {"unit": units.get(name, "us"), "values": values} for name, values in samples.items()}
    report["disturbed"] = disturbed
    return good


def parse(arguments):
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measures Ferry beside what it is compared with.")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--quick", dest="mode", action="store_const", const="quick", help="about a minute (default)")
    mode.add_argument("--full", dest="mode", action="store_const", const="full", help="about ten minutes")
    parser.add_argument("--only", metavar="NAME,…", help="these measurements only")
    parser.add_argument("--list", action="store_true", help="name the measurements and end")
    parser.add_argument("--json", metavar="FILE", help="write everything there, each sample included")
    parser.add_argument("--results", metavar="FILE", help="write a page of Markdown there, and throughput.svg beside it")
    parser.add_argument("--plot", metavar="FILE", help="write throughput over size there (SVG, by gnuplot)")
    parser.add_argument("--anyway", action="store_true", help="compare although the machine is busy")
    parser.add_argument("--program", help=argparse.SUPPRESS)
    parser.add_argument("--ferryd", help=argparse.SUPPRESS)
    parser.set_defaults(mode="quick")
    return parser.parse_args(arguments)


def chosen(options, known):
    names = options.only.split(",") if options.only else list(table())
    for name in names:
        if name not in known:
            sys.exit(f"bench: no measurement {name} (see --list)")
    return names


def write_all(options, report):
    plot = options.plot or (options.results and os.path.join(os.path.dirname(options.results), "throughput.svg"))
    samples = {name: entry["values"] for name, entry in report["samples"].items()}
    if plot and not plot_sizes(samples, plot):
        plot = None
        report["notes"].append("no plot: sizes were not measured, or gnuplot is not installed")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump(report, f, indent=1, ensure_ascii=False)
            f.write("\n")
    if options.results:
        with open(options.results, "w", encoding="utf-8") as f:
            f.write(markdown(report, plot))


def main():
    options = parse(sys.argv[1:])
    known = descriptions(options.program)
    if options.list:
        for name, text in known.items():
            print(f"{name:14}{text}")
        return 0
    names = chosen(options, known)
    quiet, before = await_quiet()
    if not quiet and not options.anyway:
        print(f"bench: the machine is busy ({before}): what would be measured could not be compared.\n"
              "bench: try again when it is quiet, or insist with --anyway.", file=sys.stderr)
        return 1
    report = {"mode": options.mode, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
              "machine": machine_facts(), "versions": versions(options.ferryd), "quiet": quiet, "descriptions": known,
              "notes": [], "results": []}
    os.environ["FERRYD"] = options.ferryd
    good = run(options, names, report)
    report["quiet"] = quiet and not report["disturbed"]
    report["state"] = ("quiet" if report["quiet"] else "BUSY, not to be compared") + f" ({before})"
    write_all(options, report)
    for text in report["notes"]:
        print(f"note: {text}")
    marked = [r for r in report["results"] if "holds" in r]
    missed = [r for r in marked if not r["holds"]]
    print(f"{len(marked) - len(missed)} of {len(marked)} marks hold; the machine was {report['state']}")
    return 0 if good else 1


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nbench: interrupted", file=sys.stderr)
        sys.exit(130)
