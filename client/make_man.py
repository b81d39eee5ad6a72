#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The man pages of libferry's and libferry-worker's calls, section 3, from the comments in their headers.

make_man.py --list HEADER...             names of the pages
make_man.py VERSION DIRECTORY HEADER...  writes them there
"""
import re
import sys

COMMENT = re.compile(r"/\*\n? ?\*? ?(.*?)\s*\*/", re.S)
DECLARATION = r"((?:const )?(?:struct |enum )?\w+ \*?)(ferry_\w+)\(((?:[^;{}]|\n)*?)\);\n"
# Several that stand below one comment share a page.
FUNCTIONS = re.compile(rf"(/\*(?:(?!\*/).)*\*/)\n((?:{DECLARATION})+)", re.S)
LIBRARIES = {"worker.h": "ferry-worker"}


def plain(comment):
    text = re.sub(r"^/\*|\*/$", "", comment.strip())
    lines = [re.sub(r"^ \* ?", "", line).rstrip() for line in text.splitlines()]
    return "\n".join(lines).strip()


def roff(text):
    text = text.replace("\\", "\\e").replace("…", "...").replace("→", "->")
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in text.splitlines())


def calls(header):
    text = open(header).read()
    for comment, declarations, *_ in FUNCTIONS.findall(text):
        yield ([(result, name, " ".join(arguments.split()))
                for result, name, arguments in re.findall(DECLARATION, declarations)], plain(comment))


def structs(headers):
    """Definitions with the comment in front, by name."""
    found = {}
    for header in headers:
        for comment, name, body in re.findall(r"(/\*(?:(?!\*/).)*\*/\n)?struct (ferry_\w+) (\{.*?^\});", open(header).read(),
                                              re.S | re.M):
            found[name] = (plain(comment) if comment else "", f"struct {name} {body};")
    return found


def common_errors(header):
    intro = plain(COMMENT.search(open(header).read(), open(header).read().index("/*\n * libferry:")).group(0))
    lines = intro[intro.index("The common errors"):].split("\n\n")[0].splitlines()[1:]
    return [line.rstrip() for line in lines if not line.startswith('"Errors:"')]


def page(call, version, header, known, errors):
    prototypes, text = call
    library = LIBRARIES.get(header, "ferry")
    names = ", ".join(name for _, name, _ in prototypes)
    arguments = " ".join(result + one for result, _, one in prototypes)
    description, _, own = text.partition("Errors:")
    sends = "struct ferry *f" in arguments and own
    out = [f'.\\" Made from <ferry/{header}>.', f'.TH {prototypes[0][1]} 3 "" "ferry {version}" "lib{library}"', ".SH NAME",
           f"{names} \\- {roff(' '.join(description.split()).split('. ')[0].rstrip('.'))}", ".SH SYNOPSIS", ".nf",
           f"#include <ferry/{header}>", "", *(f"{result}{name}({own});" for result, name, own in prototypes), "",
           f"cc `pkg-config --cflags --libs {library}`", ".fi", ".SH DESCRIPTION",
           "\n.PP\n".join(roff(" ".join(paragraph.split())) for paragraph in description.strip().split("\n\n"))]
    used = [struct for struct in re.findall(r"struct (ferry_\w+)", arguments) if struct in known]
    for struct in dict.fromkeys(used):
        comment, body = known[struct]
        out += [".PP", roff(" ".join(comment.split()))] if comment else []
        out += [".PP", ".nf", roff(body), ".fi"]
    if own:
        own = " ".join(own.split())
        out += [".SH ERRORS", roff(own[0].upper() + own[1:])]
    if sends:
        out += [".PP", "The common errors of calls that send a request:", ".PP", ".nf", roff("\n".join(errors)), ".fi"]
    out += [".SH SEE ALSO", ".BR ferry (1),", ".BR ferryd (8)"]
    return "\n".join(out) + "\n"


def main():
    if sys.argv[1] == "--list":
        print("\n".join(f"{name}.3" for header in sys.argv[2:] for found, _ in calls(header) for _, name, _ in found))
        return
    version, directory, *headers = sys.argv[1:]
    known, errors = structs(headers), common_errors(headers[0])
    for header in headers:
        for call in calls(header):
            (_, first, _), *others = call[0]
            with open(f"{directory}/{first}.3", "w") as file:
                file.write(page(call, version, header.rsplit("/", 1)[1], known, errors))
            for _, name, _ in others:
                with open(f"{directory}/{name}.3", "w") as file:
                    file.write(f".so man3/{first}.3\n")


main()
