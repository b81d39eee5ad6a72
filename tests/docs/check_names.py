#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the files, the functions in them, and the folders that the documents name exist.

check_names.py SOURCES

In the README of each folder, the pages of docs/ and those at the top, `PATH.c` (or .h, .py and so on) is a file from the
document's folder, its headers, server/ or the top, `PATH.c:NAME` has a function of that name, `PATH/` is a folder, and so is
each of an order `PATH → PATH, PATH`. A section of a header, /* ---- NAME.c ---- */ or (NAME.c), names files beside it,
which have the functions that the section declares. NAME and NOUN stand for any. Links are checked by scripts/check-style.
"""
import pathlib
import re
import sys

QUOTED = re.compile(r"`([^`]*)`")
NAMED = re.compile(r"((?:[\w.-]+/)*[\w-]+\.(?:c|cc|h|py|js|map|yaml|md))(?::(\w+))?")
FOLDER = re.compile(r"(?:[\w.-]+/)+")
SECTION = re.compile(r"^(?=/\* ---- )", re.M)
DECLARED = re.compile(r"^\w[\w *]*?\b(\w+)\([^;{}]*;", re.M)
# What is only in a commit that the document names.
OTHERS = {"tests/bench/sim_peers.c"}


def candidates(document, name, top, last):
    folder = document.parent
    yield folder / name
    yield last / name
    yield top / name
    yield top / "server" / name
    yield top / "scripts/deploy" / name
    for include in ("api/include", "client/include", "server/include", "server/*/include"):
        yield from top.glob(f"{include}/{name}")
        yield from top.glob(f"{include}/ferry/{name}")
    if "/" not in name:
        yield from folder.rglob(name)


def is_place(document, name, top):
    return any((folder / name).exists() for folder in (document.parent, top, top / "server"))


def faults_of(document, top):
    last = document.parent  # a bare name after a path is beside it: `local/pulls.c`, `pull.c`
    for quoted in QUOTED.findall(re.sub(r"^```.*?^```", "", document.read_text(), flags=re.M | re.S)):
        places = re.split(r"\s*[→,]\s*", quoted) if "→" in quoted else [quoted] if FOLDER.fullmatch(quoted) else []
        for place in places:
            if not re.search(r"NAME|NOUN", place) and not is_place(document, place, top):
                yield f"{document.relative_to(top)}: there is no folder {place}"
        named = NAMED.fullmatch(quoted)
        if not named or named[1] in OTHERS or re.search(r"NAME|NOUN", named[1]):
            continue
        name, function = named.groups()
        found = next((path for path in candidates(document, name, top, last) if path.exists()), None)
        if not found:
            yield f"{document.relative_to(top)}: there is no {name}"
            continue
        last = found.parent
        if function and not re.search(rf"^[\w#].*\b{function}\b", found.read_text(), re.M):
            yield f"{document.relative_to(top)}: {name} has no {function}"


def faults_of_header(header, top):
    inside = header.relative_to(top).parts
    folder = top.joinpath(*inside[: inside.index("include")]) if "include" in inside else header.parent
    for section in SECTION.split(header.read_text())[1:]:
        names = re.findall(r"[\w-]+\.c\b", section.partition("*/")[0])
        source = "".join((folder / name).read_text() for name in names if (folder / name).exists())
        for name in names:
            if not (folder / name).exists():
                yield f"{header.relative_to(top)}: its section is of {name}, which is not there"
        for function in DECLARED.findall(re.sub(r"/\*.*?\*/", "", section, flags=re.S)) if names else ():
            if not re.search(rf"^\w[\w *]*\b{function}\([^;{{}}]*\)\s*{{", source, re.M):
                yield f"{header.relative_to(top)}: {function} is not in {' or '.join(names)}, of which its section is"


def main():
    top = pathlib.Path(sys.argv[1]).resolve()
    documents = [top / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "SCALE.md")]
    headers = []
    for name in ("api", "client", "docs", "server", "tests", "scripts"):
        documents += sorted((top / name).rglob("*.md"))
        headers += sorted((top / name).rglob("*.h"))
    faults = [fault for document in documents for fault in faults_of(document, top)]
    faults += [fault for header in headers for fault in faults_of_header(header, top)]
    print("\n".join(faults) or f"{len(documents)} documents, {len(headers)} headers")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
