#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs and libraries are hardened: relro, bound at start, no executable stack, canaries; programs can be anywhere.

check_hardening.py [--fortified] FILE...
"""
import re
import shutil
import subprocess
import sys

arguments = sys.argv[1:]
fortified = "--fortified" in arguments
if not shutil.which("readelf"):
    print("readelf is missing (binutils)")
    sys.exit(77)


def readelf(option, path):
    return subprocess.run(["readelf", "-W", option, path], check=True, capture_output=True, text=True,
                          env={"LC_ALL": "C"}).stdout


problems = []
for path in (a for a in arguments if not a.startswith("--")):
    segments, dynamic, symbols = readelf("-l", path), readelf("-d", path), readelf("--dyn-syms", path)
    stack = re.search(r"GNU_STACK.* (RWE|RW|R) ", segments)
    for good, fault in [("DYN" in readelf("-h", path), "its addresses are fixed (no PIE)"),
                        ("GNU_RELRO" in segments, "no relro"),
                        (re.search(r"BIND_NOW|FLAGS_1.*NOW", dynamic), "symbols are bound late"),
                        (stack and "E" not in stack[1], "an executable stack"),
                        ("__stack_chk_fail" in symbols, "no stack canaries"),
                        (not fortified or re.search(r"__\w+_chk\b", symbols.replace("__stack_chk_fail", "")),
                         "not fortified")]:
        if not good:
            problems.append(f"{path}: {fault}")
print("\n".join(problems) or "hardened")
sys.exit(1 if problems else 0)
