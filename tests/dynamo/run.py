#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dynamo's users of dynamo.nixl_connect, and its own tests of them, on Ferry and on NIXL: a PASS or FAIL line each.

    run.py [USER]...

Runs in an environment that has Dynamo's wheels and Ferry's. Prints a table of what pair.py measured and what either
module costs while idle; the last line is the sum. A figure that misses its mark fails.
"""
from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from typing import Any

HERE = pathlib.Path(__file__).parent
PYTHON = sys.executable
LIMIT = 300  # seconds for each program
END = time.monotonic() + 1800  # of all
OVER = {"NIXL": [], "Ferry": [PYTHON, "-m", "ferry.dynamo"]}
MODULE = {"NIXL": "dynamo.nixl_connect", "Ferry": "ferry.nixl_connect"}
USERS = ("embeddings", "mm_kwargs", "omni", "encode_helper")
SMALL, LARGE = "4 KiB", "64 MiB"
SMALL_MARK_MS = 0.5
# Those that move bytes through nixl_connect; the others of their files move none, or want a GPU.
TESTS = {"test_embedding_transfer.py": "TestNixlRead and (test_correctness or test_benchmark)",
         "test_mm_kwargs_transfer.py": "Nixl"}
IDLE_SECONDS = 4
IDLE = f"""
import asyncio, time
from dynamo import nixl_connect

async def main():
    offer = await nixl_connect.Connector().create_readable(nixl_connect.Descriptor(bytes(4096)))
    before = time.process_time()
    await asyncio.sleep({IDLE_SECONDS})
    print((time.process_time() - before) / {IDLE_SECONDS}, flush=True)

asyncio.run(main())
"""

passed = failed = 0


def check(what: str, good: bool, more: str = "") -> bool:
    global passed, failed
    passed, failed = passed + good, failed + (not good)
    print(f"{'PASS' if good else 'FAIL'}  {what}{f': {more}' if more else ''}", flush=True)
    return good


def output(over: str, *command: object) -> tuple[int, str]:
    """Exit status, and what the program printed."""
    words = [str(word) for word in (*OVER[over], PYTHON, *command)]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "NIXL_LOG_LEVEL": "ERROR", "UCX_LOG_LEVEL": "error",
                   "DYN_LOG": "error", "PYTHONWARNINGS": "ignore"}
    limit = max(1.0, min(LIMIT, END - time.monotonic()))
    # A session of its own, so that what the program has started ends with it.
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
                          start_new_session=True) as process:
        try:
            text, _ = process.communicate(timeout=limit)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return 124, f"{process.communicate()[0]}\nno end within {limit:.0f} s"
    return process.returncode, text


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["nothing was printed"])[-1]


def last_json(text: str) -> dict[str, Any]:
    """The last line, which what a library prints may surround; empty without one."""
    lines = [line for line in text.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else {}


def check_names() -> None:
    status, text = output("NIXL", HERE / "names.py")
    check("names and parameters of dynamo.nixl_connect", status == 0, last_line(text) if status == 0 else text)


def check_own_tests() -> None:
    """Ferry's tests of the module, which do more where torch, numpy and the real module are there."""
    for path in sorted((HERE.parent / "python").glob("test_nixl_*.py")):
        status, text = output("NIXL", path)
        check(f"Ferry's own {path.name} beside the wheel", status == 0, last_line(text))


def check_upstream_tests() -> None:
    import importlib.util
    found = importlib.util.find_spec("dynamo.common")
    folder = pathlib.Path(list(found.submodule_search_locations)[0], "tests", "multimodal")  # type: ignore
    for name, choice in TESTS.items():
        for over in OVER:
            status, text = output(over, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", choice, folder / name)
            ran = re.search(r"^\d+ passed.*$", text, re.M)  # and none failed
            # NIXL's agents may end the process by a signal after that.
            good = ran is not None and (status == 0 or over == "NIXL" and status < 0)
            check(f"Dynamo's {name} on {over}", good, ran[0] if ran else last_line(text))


def measure(user: str) -> dict[str, list[list[float]]]:
    """Of NIXL and Ferry, figures of both sizes; a transfer that fails or brings other bytes is a FAIL."""
    figures = {}
    for over in OVER:
        status, text = output(over, HERE / "pair.py", user)
        result = last_json(text)
        good = status == 0 and result.get("module") == MODULE[over]
        said = f"{SMALL} {result[SMALL][0]} ms, {LARGE} {result[LARGE][0]} ms" if good else text[-2000:]
        if check(f"{user} on {over}, two processes", good, said):
            figures[over] = [result[SMALL], result[LARGE]]
    return figures


def check_marks(user: str, figures: dict[str, list[list[float]]]) -> None:
    if "Ferry" not in figures:
        return
    (small, _), (large, _) = figures["Ferry"]
    check(f"{user}: {SMALL} within {SMALL_MARK_MS} ms", small <= SMALL_MARK_MS, f"{small} ms")
    if "NIXL" in figures:
        theirs = figures["NIXL"][1][0]
        check(f"{user}: {LARGE} not slower than NIXL's", large <= theirs, f"{large} ms, NIXL {theirs} ms")


def check_media() -> None:
    """Decoded by Dynamo's frontend: its agent is NIXL's own, whatever the worker has."""
    result = last_json(output("NIXL", HERE / "pair.py", "media")[1])
    check("media of a NIXL agent, read by NIXL", result.get("same") is True, result.get("error", ""))
    result = last_json(output("Ferry", HERE / "pair.py", "media")[1])
    error = result.get("error", "no error")
    check("media of a NIXL agent, refused by Ferry", "--no-frontend-decoding" in error, error)


def print_table(rows: dict[str, dict[str, list[list[float]]]], idle: dict[str, float]) -> None:
    print(f"\n| ms, median | {SMALL} NIXL | {SMALL} Ferry | {LARGE} NIXL | {LARGE} Ferry |\n| --- | --- | --- | --- | --- |")
    for user, figures in rows.items():
        cells = []
        for i in range(2):
            for over in OVER:
                cells.append(f"{figures[over][i][0]:.2f} + {figures[over][i][1]:.2f}" if over in figures else "-")
        print(f"| {user} | {' | '.join(cells)} |")
    print("\nA pair: until the receiver has the bytes, and from then until the sender knows.")
    print(f"A process with one offer, idle: {', '.join(f'{over} {value:.2f} cores' for over, value in idle.items())}; "
          f"this machine has {os.cpu_count()}.\n", flush=True)


def measure_idle() -> dict[str, float]:
    idle = {}
    for over in OVER:
        status, text = output(over, "-c", IDLE)
        try:
            idle[over] = float(last_line(text))
        except ValueError:
            check(f"idle on {over}", False, text[-2000:])
    if "Ferry" in idle:
        check("Ferry takes no processor while idle", idle["Ferry"] < 0.02, f"{idle['Ferry']:.3f} cores")
    return idle


def main(users: list[str]) -> int:
    if not users:
        check_names()
        check_own_tests()
        check_upstream_tests()
        check_media()
    rows = {user: measure(user) for user in users or USERS}
    for user, figures in rows.items():
        check_marks(user, figures)
    print_table(rows, measure_idle())
    print(f"{passed} passed, {failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
