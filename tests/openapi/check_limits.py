#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the table of limits in server/http/README.md against openapi.yaml and the sources: every limit has a row, which
names its trace, and every metric, code and function of the table exists.

check_limits.py SOURCES
"""
import pathlib
import re
import sys

import yaml

# Times that no client or peer drives up, and an older name.
OTHERS = {"ttl_ms_default", "stall_ms", "retention_ms", "readers_max"}
# Beyond these the answer is shorter, or lacks something: the client sees that.
NO_TRACE = {"page_max", "wait_ms_max", "digest_max"}

sources = pathlib.Path(sys.argv[1])
schemas = yaml.safe_load((sources / "openapi/openapi.yaml").read_text())["components"]["schemas"]
rows = [line.split("|")[1:-1] for line in (sources / "server/http/README.md").read_text().splitlines() if line[:1] == "|"]
code = "".join(path.read_text() for folder in ("server", "api") for path in (sources / folder).rglob("*.[ch]"))
faults = []

limits = set(schemas["Limits"]["properties"]) - OTHERS
shown = {name: row for row in rows for name in re.findall(r"`(\w+)`", row[0])}
faults += [f"{name} has no row" for name in sorted(limits - set(shown))]
faults += [f"the row of {name}: /v1/limits has no such limit" for name in sorted(set(shown) - limits)]
for name in sorted(limits & set(shown) - NO_TRACE):
    if "`" not in shown[name][1] + shown[name][2]:
        faults.append(f"the row of {name} names no code, reason or metric")
for word in sorted({word for row in rows for word in re.findall(r"`([\w-]+)", row[1] + row[2])} - limits):
    if f'"{word}"' not in code:
        faults.append(f"no source knows {word}")
for file, name in re.findall(r"`([\w/]+\.c):(\w+)`", "".join(row[4] for row in rows if len(row) > 4)):
    if not re.search(rf"^\w.*\b{name}\(", (sources / "server" / file).read_text(), re.M):
        faults.append(f"{file} has no {name}")
print("\n".join(faults) or f"{len(limits)} limits")
sys.exit(bool(faults))
