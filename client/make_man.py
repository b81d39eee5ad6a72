#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The man pages of libferry's calls, section 3, from the comments in its headers.

make_man.py --list HEADER...             names of the pages
make_man.py VERSION DIRECTORY HEADER...  writes them there
"""
import re
import sys

COMMENT = re.compile(r"/\*\n? ?\*? ?(.*?)\s*\*/", re.S)
FUNCTION = re.compile(
    r"(/\*(?:(?!\*/).)*\*/)\n(?:FERRY_SIZED )?((?:const )?(?:struct )?\w+ \*?)(ferry_\w+)\(([^;{]*)\);", re.S)


def plain(comment):
    text = re.sub(r"^/\*|\*/$", "", comment.strip())
    lines = [re.sub(r"^ \* ?", "", line).rstrip() for line in text.splitlines()]
    return "\n".join(lines).strip()


def roff(text):
    text = text.replace("\\", "\\e").replace("…", "...").replace("→", "->")
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in text.splitlines())


def calls(header):
    text = open(header).read()
    for comment, result, name, arguments in FUNCTION.findall(text):
        yield name, result, " ".join(arguments.split()), plain(comment)


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
    name, result, arguments, text = call
    description, _, own = text.partition("Errors:")
    sends = "struct ferry *f" in arguments and own
    out = [f'.\\" Made from <ferry/{header}>.', f'.TH {name} 3 "" "ferry {version}" "libferry"', ".SH NAME",
           f"{name} \\- {roff(' '.join(description.split()).split('. ')[0].rstrip('.'))}", ".SH SYNOPSIS", ".nf",
           f"#include <ferry/{header}>", "", f"{result}{name}({arguments});", "", "cc `pkg-config --cflags --libs ferry`", ".fi",
           ".SH DESCRIPTION", roff(" ".join(description.split()))]
    used = [struct for struct in re.findall(r"struct (ferry_\w+)", arguments + result) if struct in known]
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
        print("\n".join(f"{call[0]}.3" for header in sys.argv[2:] for call in calls(header) if not call[0].endswith("_sized")))
        return
    version, directory, *headers = sys.argv[1:]
    known, errors = structs(headers), common_errors(headers[0])
    for header in headers:
        for call in calls(header):
            if not call[0].endswith("_sized"):
                with open(f"{directory}/{call[0]}.3", "w") as file:
                    file.write(page(call, version, header.rsplit("/", 1)[1], known, errors))


main()
