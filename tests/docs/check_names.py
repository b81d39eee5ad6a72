#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the files, and the functions in them, that the documents name exist.

check_names.py SOURCES

In the README of each folder, the pages of docs/ and those at the top, `PATH.c` (or .h, .py and so on) is a file from the document's folder, its
headers, server/ or the top, and `PATH.c:NAME` has a function of that name. NAME and NOUN stand for any. Links
are checked by scripts/check-style.
"""
import pathlib
import re
import sys

NAMED = re.compile(r"`((?:[\w.-]+/)*[\w-]+\.(?:c|cc|h|py|js|map|yaml|md))(?::(\w+))?`")
# What is only in a commit that the document names.
OTHERS = {"tests/bench/sim_peers.c"}


def candidates(document, name, top):
    folder = document.parent
    yield folder / name
    yield top / name
    yield top / "server" / name
    yield top / "scripts/deploy" / name
    for include in ("api/include", "client/include", "server/include", "server/*/include"):
        yield from top.glob(f"{include}/{name}")
        yield from top.glob(f"{include}/ferry/{name}")
    if "/" not in name:
        yield from folder.rglob(name)


def faults_of(document, top):
    last = document.parent # a bare name after a path is beside it: `local/` (`pulls.c`)
    for name, function in NAMED.findall(document.read_text()):
        if name in OTHERS or re.search(r"NAME|NOUN", name):
            continue
        found = next((path for path in [*candidates(document, name, top), last / name] if path.exists()), None)
        if not found:
            yield f"{document.relative_to(top)}: there is no {name}"
            continue
        last = found.parent
        if function and not re.search(rf"^[\w#].*\b{function}\b", found.read_text(), re.M):
            yield f"{document.relative_to(top)}: {name} has no {function}"


def main():
    top = pathlib.Path(sys.argv[1]).resolve()
    documents = [top / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "SCALE.md")]
    for name in ("api", "client", "docs", "server", "tests", "scripts"):
        documents += sorted((top / name).rglob("*.md"))
    faults = [fault for document in documents for fault in faults_of(document, top)]
    print("\n".join(faults) or f"{len(documents)} documents")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
