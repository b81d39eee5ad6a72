#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs ferry-bench, measurement by measurement, and reports. Called by scripts/bench, which has the help."""
import argparse
import json
import os
import signal
import subprocess
import sys
import time

from machine import Memory, Watch, await_quiet, describe_noise, machine_facts, versions
from report import TABLE, clean_rounds, evaluate, held, lines_of, markdown, pool, print_lines, sections_of_gpus

TRIES = 3  # of a measurement that others disturb


def show(text):
    """Progress on standard error, in one line, when it is a terminal."""
    if sys.stderr.isatty():
        print("\r\033[K" + text, end="", file=sys.stderr, flush=True)


class Attempt:
    """What one execution of ferry-bench told."""

    def __init__(self):
        self.status, self.notes, self.units, self.disturbed = 1, [], {}, []
        self.rounds = [{"begin": time.monotonic(), "end": None, "samples": []}]  # the first is before all rounds

    def take(self, line, name):
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
            show(f"{name}: {text}")

    def worst(self):
        return describe_noise(*max(self.disturbed, key=lambda w: w[2] + w[3])[2:])


def execute(program, name, mode):
    """Runs ferry-bench once."""
    attempt = Attempt()
    with subprocess.Popen([program, name, mode], stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
        watch = Watch(child.pid)
        try:
            for line in child.stdout:
                attempt.take(line, name)
        except BaseException:
            child.send_signal(signal.SIGTERM)  # it ends its workers
            child.wait()
            raise
        finally:
            attempt.rounds[-1]["end"] = time.monotonic()
            attempt.disturbed = watch.end()
            show("")
    attempt.status = child.returncode
    return attempt


def measure(options, name, run):
    """
    Runs a measurement, again when others disturbed most of its rounds; adds its samples, without those of disturbed
    rounds, to the run's. True when it ended well.
    """
    for tries_left in range(TRIES - 1, -1, -1):
        attempt = execute(options.program, name, options.mode)
        clean = clean_rounds(attempt.rounds, attempt.disturbed)
        dropped = len(attempt.rounds) - len(clean)
        enough = dropped <= len(attempt.rounds) // 2
        if options.anyway or attempt.status != 0 or enough:
            break
        print(f"  disturbed: {attempt.worst()}; " + ("measured again" if tries_left else "not measured again"), flush=True)
        if tries_left:
            await_quiet(tries=5)
    left_out = enough and not options.anyway
    for series, values in pool(clean if left_out else attempt.rounds).items():
        run["samples"].setdefault(series, []).extend(values)
    run["units"].update(attempt.units)
    run["notes"] += [text for text in attempt.notes if text not in run["notes"]]
    if dropped:
        run["notes"].append(f"{name}: {dropped} of {len(attempt.rounds) - 1} rounds were disturbed ({attempt.worst()}) and "
                            + ("left out" if left_out else "kept"))
        if not left_out:
            run["disturbed"].append(name)
    if attempt.status != 0:
        print(f"  failed ({attempt.status})", flush=True)
    return attempt.status == 0


def measure_all(options, names, known, memory):
    """One whole run."""
    run = {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "good": True, "results": [], "notes": [],
           "disturbed": [], "samples": {}, "units": {}}
    for name in names:
        print(f"{name}: {known[name]}", flush=True)
        memory.look()
        run["good"] = measure(options, name, run) and run["good"]
        results = [r for r in (evaluate(row, run["samples"], run["units"]) for row in TABLE if row.measurement == name) if r]
        run["results"] += results
        if results:
            print_lines(lines_of([{"results": results}]), sys.stdout)
        print(flush=True)
    memory.look()
    for text in run["notes"]:
        print(f"note: {text}")
    print(held(lines_of([run])), flush=True)
    return run


def parse(arguments):
    parser = argparse.ArgumentParser(prog="scripts/bench", add_help=False)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--quick", dest="mode", action="store_const", const="quick")
    mode.add_argument("--full", dest="mode", action="store_const", const="full")
    parser.add_argument("--only")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--results")
    parser.add_argument("--anyway", action="store_true")
    parser.add_argument("--program")
    parser.add_argument("--ferryd")
    parser.set_defaults(mode="quick")
    options = parser.parse_args(arguments)
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    return options


def write_all(options, report):
    if options.json:
        with open(options.json, "w", encoding="utf-8") as f:
            json.dump(report, f, indent=1, ensure_ascii=False)
            f.write("\n")
    if options.results:
        with open(options.results, "a+", encoding="utf-8") as f:
            f.seek(0)
            kept = sections_of_gpus(f.read())
            f.truncate(0)
            f.write(markdown(report) + kept)


def main():
    options = parse(sys.argv[1:])
    out = subprocess.run([options.program, "--list"], capture_output=True, text=True, check=True).stdout
    if options.list:
        print(out, end="")
        return 0
    known = dict(line.split(None, 1) for line in out.splitlines())
    names = options.only.split(",") if options.only else list(known)
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"bench: no measurement {unknown[0]} (see --list)")
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
    disturbed = any(run["disturbed"] for run in report["runs"])
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
