#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The man pages of libferry and libferry-worker, section 3, from the comments in their headers and from the examples.

make_man.py --list FILE...             names of the pages
make_man.py VERSION DIRECTORY FILE...  writes them there

FILE is a public header or an example in C. The first comment of a header that begins with "NAME: " makes the page NAME,
an overview: its paragraphs begin with the heading ("Threads. …"), and the examples of OVERVIEWS follow. The comment of
a function makes the page of that function; several functions below one comment share it. In such a comment

  - a sentence that begins with "Returns" says what RETURN VALUE has,
  - "Errors:" begins a list, "NAME, NAME: reason; NAME; reason", the last part of the comment.

EXAMPLES has the lines of the first example that calls the function.
"""
import errno
import os
import pathlib
import re
import sys
import textwrap

DECLARATION = r"((?:const )?(?:struct |enum )?\w+ \*?)(ferry_\w+)\(((?:[^;{}]|\n)*?)\);\n"
FUNCTIONS = re.compile(rf"/\* ---- ([^-]*) ---- \*/|(/\*(?:(?!\*/).)*\*/)\n((?:{DECLARATION})+)", re.S)
STRUCTS = re.compile(r"(?:(/\*(?:(?!\*/).)*\*/)\n)?struct (ferry_\w+) \{\n(.*?)^\};", re.S | re.M)
RETURNS = re.compile(r"(?:^|(?<=\. ))Returns (?:[^.]|\.(?!\s|$))*\.(?: Valid until (?:[^.]|\.(?!\s|$))*\.)?(?=\s|$)")
NAMES = re.compile(r"((?:-E[A-Z]+|FERRY_E_\w+)(?:(?:, and |, | and )(?:-E[A-Z]+|FERRY_E_\w+|other errors of open\(2\)))*)(?:: (.*))?$", re.S)
OVERVIEWS = {"libferry": ["move.c"], "ferry_aio": ["many.c"], "libferry-worker": ["offer.c", "read.c"]}
# What a call that can fail returns, by library.
FAILS = {
    "ferry": "a positive FERRY_E_* number if the worker refuses, or a negative errno. ferry_last_message() has a sentence.",
    "ferry-worker": "a positive FERRY_E_* number (the fault of the caller or of the peer), or a negative errno (of the "
                    "library or of the system). ferry_worker_error() has a sentence.",
}
DATE = "2026-11-26"  # of the latest change to what the pages promise
WIDTH = 76  # of lines that are not filled


def plain(comment):
    text = re.sub(r"^/\*|\*/$", "", comment.strip())
    return "\n".join(re.sub(r"^ ?\* ?", "", line).rstrip() for line in text.splitlines()).strip()


def escaped(text):
    for character, plainer in (("\\", "\\e"), ("…", "..."), ("→", "->"), ("×", "x"), ("—", "-")):
        text = text.replace(character, plainer)
    text = re.sub(r"(?<![\w-])-(?=[\w-])|(?<=-)-(?=\w)", r"\\-", text)
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in text.splitlines())


def roff(text):
    """Filled text; the names of functions and errors are bold."""
    text = escaped(" ".join(text.split()))
    text = re.sub(r"\b(ferry_\w+)\(\)", r"\\%\\fB\1\\fR(3)", text)
    text = re.sub(r"\b((?:lib)?ferry[\w-]*|open|write|read|epoll_wait)\(([1-8])\)", r"\\fB\1\\fR(\2)", text)
    return re.sub(r"(?<![\w\\])((?:\\-)?E[A-Z]{3,}|FERRY_[A-Z_]+\*?)(?!\w)", r"\\fB\1\\fR", text)


def paragraphs(text):
    return "\n.PP\n".join(roff(one) for one in text.split("\n\n") if one.strip())


def code(text):
    return [".PP", ".nf", escaped(text.expandtabs().rstrip()), ".fi"]


def struct_text(name, body):
    """The definition, no line longer than WIDTH: a comment that does not fit goes in front of its fields."""
    out, lines = [f"struct {name} {{"], re.sub(r"\s*\n\s*\*(?!/) ?", " ", body).splitlines()
    for line in lines:
        line = re.sub(r"\s+\*/", " */", " ".join(line.split()))
        fields, _, comment = line.partition("/*")
        fields, comment = fields.strip(), comment.removesuffix("*/").strip()
        if comment and len(fields) + len(comment) + 11 > WIDTH or not fields:
            out += ["    " + one for one in textwrap.wrap(f"/* {comment} */", WIDTH - 4, subsequent_indent="   ")] if comment else [""]
            comment = ""
        if fields:
            out.append(f"    {fields}" + (f" /* {comment} */" if comment else ""))
    return "\n".join(out + ["};"])


class Header:
    def __init__(self, path):
        self.name, text = path.name, path.read_text()
        self.library = "ferry-worker" if self.name == "worker.h" else "ferry"
        self.functions, group = [], ""
        for match in FUNCTIONS.finditer(text):
            if match[1]:
                group = match[1]
            else:
                found = re.findall(DECLARATION, match[3])
                self.functions.append(Page(self, group, [(result, name, " ".join(arguments.split()))
                                                         for result, name, arguments in found], plain(match[2])))
        self.structs = {name: (plain(comment), struct_text(name, body)) for comment, name, body in STRUCTS.findall(text)}
        self.errors = dict(re.findall(r"X\((\w+), \d+, .*?\"([^\"]*)\"\)", text, re.S))
        intro = re.search(r"^/\*\n \* ([\w-]+): ([^\n]*)\n(.*?)\*/", text, re.S | re.M)
        self.overview = intro and (intro[1], intro[2], plain("/*" + intro[3] + "*/"))


class Page:
    def __init__(self, header, group, prototypes, text):
        self.header, self.group, self.prototypes = header, group, prototypes
        text, _, self.errors = text.partition("Errors:")
        self.text = "\n\n".join(" ".join(one.split()) for one in text.strip().split("\n\n"))
        self.returns = " ".join(RETURNS.findall(self.text))
        self.names = [name for _, name, _ in prototypes]

    def summary(self):
        if not self.text:
            sys.exit(f"{self.header.name}: {self.names[0]}: no comment says what it does")
        text = self.text.removeprefix("Returns ")
        for _ in range(2):  # parentheses, and those in them
            text = re.sub(r",? \((?:[^()]|\(\))*\)", "", text)
        text = re.split(r"\.(?:\s|$)|; |:(?=[ ,.]|$)", text)[0]
        while len(text) > 100 and ", " in text:
            text = text.rpartition(", ")[0]
        return text[0].lower() + text[1:]

    def description(self):
        if self.text.startswith("Returns "):
            return self.text
        return "\n\n".join(RETURNS.sub("", one).strip() for one in self.text.split("\n\n"))

    def return_value(self):
        result, name, _ = self.prototypes[0]
        if result == "void ":
            return "None."
        if name.endswith("_free"):
            return "NULL."
        fails = FAILS[self.header.library] if self.errors and result == "int " else ""
        if self.header.name == "aio.h" and fails:
            fails = "a negative errno."
        if self.returns:
            text = self.returns.removeprefix("Returns ")
            return text[0].upper() + text[1:] + (f" On an error, {fails}" if fails else "")
        if not fails:
            sys.exit(f"{self.header.name}: {name}: no sentence begins with \"Returns\"")
        return "0 on success; " + fails


def error_list(text, titles, arguments):
    out = []
    for one in re.split(r";\s+", " ".join(text.split()).rstrip(".")):
        match = NAMES.match(one)
        if not match:
            out += ([".PP"] if out else []) + [roff(one[0].upper() + one[1:] + ".")]
            continue
        names = re.split(r", and |, | and ", match[1])
        title = titles.get(names[0].removeprefix("FERRY_E_")) if len(names) == 1 else None
        reason = ": ".join(filter(None, [title, match[2]])) or "; ".join(
            dict.fromkeys(os.strerror(getattr(errno, name.removeprefix("-"))) for name in names))
        out += [".TP", ", ".join(roff(name) for name in names), roff((reason if re.match(r"\W*(\w*)", reason)[1] in arguments else reason[0].upper() + reason[1:]) + ".")]
    return out


def prototype(result, name, arguments):
    whole = f"{result}{name}({arguments});".replace(" ", "\0").replace(",\0", ", ")
    lines = textwrap.wrap(whole, WIDTH, subsequent_indent="    ", break_long_words=False)
    return escaped("\n".join(lines).replace("\0", " ")).replace(name, f"\\fB{name}\\fR", 1)


def example(names, examples):
    """The file, and of its blocks of lines between empty ones the shortest that has a call."""
    found = [(len(block), file, block) for file, text in examples.items() for block in text.split("\n\n")
             if any(re.search(rf"\b{name}\(", block) for name in names) and block.count("\n") < 24]
    if not found:
        return None
    _, file, block = min(found)
    block = block.strip("\n")
    if block.startswith(" "):  # without the end of the function around it
        block = block.removesuffix("\n}")
    return file, textwrap.dedent(block)


def head(title, header, version):
    return [f'.\\" Made from <ferry/{header.name}>.',
            f'.TH {title} 3 {DATE} "ferry {version}" Ferry']


def function_page(page, version, headers, examples):
    header, known = page.header, {name: one for each in headers for name, one in each.structs.items()}
    titles = {name: title for each in headers for name, title in each.errors.items()}
    arguments = " ".join(result + one for result, _, one in page.prototypes)
    out = head(page.names[0], header, version) + [
        ".SH NAME", f"{', '.join(page.names)} \\- {escaped(page.summary())}", ".SH LIBRARY",
        f"lib{header.library} (\\-l{header.library}; pkg\\-config \\-\\-cflags \\-\\-libs {header.library})",
        ".SH SYNOPSIS", ".nf", f"\\fB#include <ferry/{header.name}>\\fR", "", *(prototype(*one) for one in page.prototypes),
        ".fi", ".SH DESCRIPTION", paragraphs(page.description())]
    for struct in dict.fromkeys(one for one in re.findall(r"struct (ferry_\w+)", arguments) if one in known):
        comment, definition = known[struct]
        out += ([".PP", roff(comment)] if comment else []) + code(definition)
    out += [".SH RETURN VALUE", roff(page.return_value())]
    own = page.errors.replace("the common ones, ", "").replace("the common ones.", "").strip()
    if page.errors:
        out += [".SH ERRORS"] + (error_list(own, titles, set(re.findall(r"\w+", arguments))) if own else [])
        if "struct ferry *f" in arguments and header.name != "aio.h":
            out += [".PP"] if own else []
            out += [roff(("Beside these, the" if own else "The") + " common errors of libferry(3), as of any call that sends "
                         "a request.")]
        elif re.search(r"struct ferry_worker(_operation|_events)? \*", arguments):
            out += [".TP", roff("-ECHILD"), "The process was forked after the worker was made."]
    found = example(page.names, examples)
    if found:
        out += [".SH EXAMPLES", f"From {found[0]}, which is installed among the examples:"] + code(found[1])
    overview = header.overview[0] if header.overview else f"lib{header.library}"
    # Those that the text names, and what frees the results.
    text = f"{page.text} {page.errors}"
    others = [name for each in headers for other in each.functions for name in other.names
              if other is not page and re.search(rf"\b{name}\b", text)]
    refs = [f"{overview} (3)"] + [f"{name} (3)" for name in sorted(others)]
    out += [".SH SEE ALSO"] + [f".BR {one}," for one in refs[:-1]] + [f".BR {refs[-1]}"]
    return "\n".join(line for line in out if line is not None) + "\n"


def definition_list(lines, starts):
    """A paragraph of an overview whose lines at starts are "  NAME, NAME   reason", with what precedes and follows them."""
    out = [roff(" ".join(lines[:starts[0]]))]
    last = starts[0]
    for start in starts:
        names, _, reason = lines[start].strip().partition("  ")
        last = start + 1
        while last < len(lines) and lines[last].startswith("   "):
            last += 1
        out += [".TP", roff(names), roff(" ".join([reason, *lines[start + 1:last]])) or "\\&"]
    return out + ([".PP", roff(" ".join(lines[last:]))] if lines[last:] else [])


def overview_page(header, version, headers, examples):
    name, summary, text = header.overview
    out = head(name, header, version) + [
        ".SH NAME", f"{name} \\- {escaped(summary)}", ".SH SYNOPSIS", ".nf", f"\\fB#include <ferry/{header.name}>\\fR", "",
        f"cc program.c $(pkg\\-config \\-\\-cflags \\-\\-libs {header.library}) \\-o program", ".fi"]
    section = "DESCRIPTION"
    text = re.sub(r",\n   ?(?=[F-])", ", ", text)
    for paragraph in re.split(r"\n\n", text):
        heading = re.match(r"([A-Z][a-z]+(?: [a-z]+)*)\. ", paragraph)
        if heading:
            section, paragraph = heading[1].upper(), paragraph[heading.end():]
        lines = paragraph.splitlines()
        if section:
            out += [f".SH {section}"]
            section = None
        else:
            out += [".PP"]
        listed = [i for i, line in enumerate(lines) if re.match(r"  \S", line)]
        out += definition_list(lines, listed) if listed else [roff(paragraph)]
    out += [".SH FUNCTIONS"]
    group = None
    for page in header.functions:
        if page.group != group and page.group:
            out += [f".SS {page.group[0].upper()}{page.group[1:]}"]
        group = page.group
        out += [".TP", ", ".join(f"\\fB{one}\\fR(3)" for one in page.names), escaped(page.summary())]
    out += [".SH EXAMPLES"]
    for file in OVERVIEWS[name]:
        out += [f"{file}:"] + code(re.sub(r"^//[^\n]*\n", "", examples[file])) + [".PP"]
    out += [roff("The folder doc/ferry/examples of the installation's share folder has these programs and others, "
                 "also in further languages.")]
    others = sorted(each.overview[0] for each in headers if each.overview and each is not header)
    refs = ["ferry (1)"] + [f"{one} (3)" for one in others] + ["ferryd (8)"]
    out += [".SH SEE ALSO"] + [f".BR {one}," for one in refs[:-1]] + [f".BR {refs[-1]}"]
    return "\n".join(out) + "\n"


def main():
    arguments = sys.argv[2:] if sys.argv[1] == "--list" else sys.argv[3:]
    paths = [pathlib.Path(one) for one in arguments]
    headers = [Header(path) for path in paths if path.suffix == ".h"]
    examples = {path.name: path.read_text() for path in paths if path.suffix == ".c"}
    if sys.argv[1] == "--list":
        for header in headers:
            print("\n".join(([f"{header.overview[0]}.3"] if header.overview else []) +
                            [f"{name}.3" for page in header.functions for name in page.names]))
        return
    version, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    for header in headers:
        if header.overview:
            (directory / f"{header.overview[0]}.3").write_text(overview_page(header, version, headers, examples))
        for page in header.functions:
            first, *others = page.names
            (directory / f"{first}.3").write_text(function_page(page, version, headers, examples))
            for name in others:
                (directory / f"{name}.3").write_text(f".so man3/{first}.3\n")


main()
