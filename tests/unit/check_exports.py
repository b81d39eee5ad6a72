#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A library exports what its headers declare, each symbol with a version, and nothing else.

check_exports.py HEADER... LIBRARY
"""
import re
import subprocess
import sys

*headers, library = sys.argv[1:]
declared = set()
for header in headers:
    text = re.sub(r"/\*.*?\*/", "", open(header).read(), flags=re.S)
    for line in re.findall(r"^(?!static|typedef|#)[a-z][^;{}()]*\b(ferry_\w+)\([^;{]*\);", text, flags=re.M):
        declared.add(line)

exported, bare = set(), []
for line in subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", library], check=True,
                           capture_output=True, text=True).stdout.splitlines():
    kind, symbol = line.split()[1:3]
    if kind == "A":  # the versions themselves
        continue
    name, _, version = symbol.partition("@@")
    exported.add(name)
    if not re.fullmatch(r"FERRY_(WORKER_)?\d+\.\d+", version):
        bare.append(symbol)

problems = [f"{name}: declared, but not exported (see the library's .map)" for name in sorted(declared - exported)]
problems += [f"{name}: exported, but not declared" for name in sorted(exported - declared)]
problems += [f"{symbol}: no version" for symbol in bare]
print("\n".join(problems) or f"{len(exported)} symbols")
sys.exit(1 if problems or not exported else 0)
