#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs ferry-bench, measurement by measurement, and reports. Called by scripts/bench."""
import argparse
import json
import os
import signal
import subprocess
import sys
import time

from machine import Memory, Watch, await_quiet, describe_noise, machine_facts, versions
from plot import plot_sizes
from report import (clean_rounds, count_marks, derive, evaluate, markdown, pool, print_rows, sections_of_gpus,
                    table)

TRIES = 3  # of a measurement that others disturb
TRAPPED = 75  # bench_internal.h: EXIT_TRAPPED


class Terminal:
    """Progress on standard error, in one line when it is a terminal."""

    def __init__(self):
        self.live = sys.stderr.isatty()

    def show(self, text):
        if self.live:
            print("\r\033[K" + text, end="", file=sys.stderr, flush=True)

    def clear(self):
        self.show("")


class Attempt:
    """What one execution of ferry-bench told."""

    def __init__(self):
        self.status, self.notes, self.units, self.disturbed = 1, [], {}, []
        self.rounds = [{"begin": time.monotonic(), "end": None, "samples": []}]  # the first is before all rounds

    def take(self, line, terminal, name):
        kind, text = line[0], line[2:].rstrip("\n")
        if kind == "S":
            series, unit, value = text.split(" ")
            self.rounds[-1]["samples"].append((series, float(value)))
            self.units[series] = unit
        elif kind == "N":
            self.notes.append(text)
        elif kind == "R":
            self.rounds[-1]["end"] = time.monotonic()
            self.rounds.append({"begin": time.monotonic(), "end": None, "samples": []})
        if kind in "RP":
            terminal.show(f"{name}: {text}")


def execute(program, name, mode, terminal):
    """Runs ferry-bench once."""
    attempt = Attempt()
    with subprocess.Popen([program, name, mode], stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
        watch = Watch(child.pid)
        try:
            for line in child.stdout:
                attempt.take(line, terminal, name)
        except BaseException:
            child.send_signal(signal.SIGTERM)  # it ends its workers
            child.wait()
            raise
        finally:
            attempt.rounds[-1]["end"] = time.monotonic()
            attempt.disturbed = watch.end()
            terminal.clear()
    attempt.status = child.returncode
    return attempt


def measure(options, name, run, terminal):
    """
    Runs a measurement, again when others disturbed most of its rounds; adds its samples, without those of disturbed
    rounds, to the run's. True when it ended well.
    """
    for tries_left in range(TRIES - 1, -1, -1):
        attempt = execute(options.program, name, options.mode, terminal)
        clean = clean_rounds(attempt.rounds, attempt.disturbed)
        dropped = len(attempt.rounds) - len(clean)
        if attempt.status == TRAPPED and tries_left:
            print("  a watchpoint ended a worker; measured again", flush=True)
            continue
        if options.anyway or attempt.status != 0 or dropped <= len(attempt.rounds) // 2:
            break
        worst = describe_noise(*max(attempt.disturbed, key=lambda w: w[2] + w[3])[2:])
        print(f"  disturbed: {worst}; " + ("measured again" if tries_left else "not measured again"), flush=True)
        if tries_left:
            await_quiet(tries=5)
    enough = dropped <= len(attempt.rounds) // 2
    for series, values in pool(clean if enough and not options.anyway else attempt.rounds).items():
        run["samples"].setdefault(series, []).extend(values)
    run["units"].update(attempt.units)
    run["notes"] += [text for text in attempt.notes if text not in run["notes"]]
    if dropped:
        worst = describe_noise(*max(attempt.disturbed, key=lambda w: w[2] + w[3])[2:])
        outcome = "left out" if enough and not options.anyway else "kept"
        run["notes"].append(f"{name}: {dropped} of {len(attempt.rounds) - 1} rounds were disturbed ({worst}) and {outcome}")
        if outcome == "kept":
            run["disturbed"].append(name)
    if attempt.status != 0:
        print(f"  failed ({attempt.status})", flush=True)
    return attempt.status == 0


def measure_all(options, names, known, memory):
    """One whole run."""
    rows, terminal = table(), Terminal()
    run = {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "good": True, "results": [], "notes": [],
           "disturbed": [], "samples": {}, "units": {}}
    for name in names:
        print(f"{name}: {known[name]}", flush=True)
        memory.look()
        run["good"] = measure(options, name, run, terminal) and run["good"]
        derive(run["samples"])
        results = [r for r in (evaluate(name, row, run["samples"], run["units"]) for row in rows[name]) if r]
        run["results"] += results
        if results:
            print_rows(results, sys.stdout)
        print(flush=True)
    memory.look()
    for text in run["notes"]:
        print(f"note: {text}")
    held, marked, missing = count_marks(run["results"])
    print(f"{held} of {marked} marks hold" + (f", {missing} more were not measured" if missing else ""), flush=True)
    return run


def parse(arguments):
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measures Ferry beside what it is compared with.")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--quick", dest="mode", action="store_const", const="quick", help="about a minute (default)")
    mode.add_argument("--full", dest="mode", action="store_const", const="full", help="about eight minutes")
    parser.add_argument("--only", metavar="NAME,…", help="these measurements only")
    parser.add_argument("--runs", metavar="N", type=int, default=1, help="everything N times in a row")
    parser.add_argument("--list", action="store_true", help="name the measurements and end")
    parser.add_argument("--json", metavar="FILE", help="write everything there, each sample included")
    parser.add_argument("--results", metavar="FILE", help="write a page of Markdown there, and throughput.svg beside it")
    parser.add_argument("--plot", metavar="FILE", help="write throughput over size there (SVG, by gnuplot)")
    parser.add_argument("--anyway", action="store_true", help="compare although the machine is busy")
    parser.add_argument("--program", help=argparse.SUPPRESS)
    parser.add_argument("--ferryd", help=argparse.SUPPRESS)
    parser.set_defaults(mode="quick")
    options = parser.parse_args(arguments)
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    return options


def chosen(options, known):
    names = options.only.split(",") if options.only else list(table())
    for name in names:
        if name not in known:
            sys.exit(f"bench: no measurement {name} (see --list)")
    return names


def write_all(options, report):
    last = report["runs"][-1]
    plot = options.plot or (options.results and os.path.join(os.path.dirname(options.results), "throughput.svg"))
    if plot and not plot_sizes(last["samples"], plot):
        plot = None
        last["notes"].append("no plot: sizes were not measured, or gnuplot is not installed")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump(report, f, indent=1, ensure_ascii=False)
            f.write("\n")
    if options.results:
        link = os.path.relpath(plot, os.path.dirname(options.results) or ".") if plot else None
        with open(options.results, "a+", encoding="utf-8") as f:
            f.seek(0)
            kept = sections_of_gpus(f.read())
            f.truncate(0)
            f.write(markdown(report, link) + kept)


def main():
    options = parse(sys.argv[1:])
    out = subprocess.run([options.program, "--list"], capture_output=True, text=True, check=True).stdout
    known = dict(line.split(None, 1) for line in out.splitlines())
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
    os.environ["FERRYD"] = options.ferryd
    memory = Memory()
    report = {"mode": options.mode, "machine": machine_facts(), "versions": versions(options.ferryd),
              "descriptions": known, "runs": []}
    for number in range(options.runs):
        if options.runs > 1:
            print(f"run {number + 1} of {options.runs}\n", flush=True)
        report["runs"].append(measure_all(options, names, known, memory))
    disturbed = sorted({name for run in report["runs"] for name in run["disturbed"]})
    report["quiet"] = quiet and not disturbed and memory.is_steady()
    report["state"] = ("quiet" if report["quiet"] else "BUSY, not to be compared") + f" ({before}; {memory.describe()})"
    write_all(options, report)
    print(f"the machine was {report['state']}")
    return 0 if all(run["good"] for run in report["runs"]) else 1


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nbench: interrupted", file=sys.stderr)
        sys.exit(130)
