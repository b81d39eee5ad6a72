#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/, followed from an empty directory: every command in them runs, in the order of the page; and the steps
of README.md.

A fenced block begins with its language and may name what it is for:

    ```sh                   runs; the blocks of one page and host share a shell
    ```sh a                 runs on host a or b, which have directories of their own; any other name is one more
                            shell in the page's directory
    ```sh needs=nginx       runs where there is a program of that name (several: needs=etcd,jq)
    ```sh skip              does not run here: two machines, an image, a package
    ```c offer.c            a file, for the blocks after it; so are python, nginx, haproxy, yaml with a name
    ```console              output, or what a reader types at a prompt

Ports become free ones; 10.0.0.1 and 10.0.0.2 become 127.0.0.1 with a port of each, and scp goes from one directory to the other. An
operation's id op_0123456789abcdef stands for the one that was printed last.

test_docs.py ROOT BUILD
"""
import collections
import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT, BUILD = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
LIMIT_S = 60
HOSTS = {"a": "10.0.0.1", "b": "10.0.0.2"}
FENCE = re.compile(r"^```([a-z]+)(?: ([^\n]*))?\n(.*?)^```$", re.M | re.S)
PORT = re.compile(r"(10\.0\.0\.[12]:)?(?<![\d.])(9[34]\d\d|8[04]\d\d|2379)(?!\d)")
SCP = """#!/bin/sh
# scp FILE... HOST: or scp HOST:FILE FILE
case $1 in *:*) exec cp "../${1%%:*}/${1#*:}" "$2" ;; esac
for last; do :; done
to=../${last%:}
mkdir -p "$to"
while [ $# -gt 1 ]; do cp "$1" "$to/" || exit; shift; done
"""
# ferry doctor exits with 1 for what is wrong with this machine, as an RDMA port without a cable.
FERRY = f"""#!/bin/sh
[ "$1" != doctor ] || {{ "{BUILD}/ferry" "$@"; [ $? -le 1 ]; exit; }}
exec "{BUILD}/ferry" "$@"
"""
left_out = collections.Counter()


def has(program):
    path = shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if path and program == "etcd":  # a registry is one of 3.4 or newer
        text = subprocess.run([path, "--version"], check=False, capture_output=True, text=True).stdout
        found = re.search(r"(\d+)\.(\d+)", text)
        return found and (int(found[1]), int(found[2])) >= (3, 4)
    return path


class Shell:
    """One bash: what it is given runs in it, and its background jobs end with it."""

    def __init__(self, directory, environment):
        directory.mkdir(exist_ok=True)
        self.process = subprocess.Popen(["bash"], cwd=directory, env=environment, text=True, bufsize=1,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        start_new_session=True)
        self.output, self._n, self._changed = "", 0, threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.process.stdin.write("set -o pipefail; trap 'echo @@end' EXIT\n")

    def _read(self):
        for line in self.process.stdout:
            with self._changed:
                self.output += line
                self._changed.notify()
        with self._changed:
            self.output += "\n@@end\n"
            self._changed.notify()

    def run(self, text):
        """Waits for the end of text, or until it offers something: then it goes on until a later block fetches that."""
        self._n += 1
        start = len(self.output)
        # The braces make bash read all of it before it begins: what a program reads from its input is not the script.
        self.process.stdin.write(f"{{ set -e\n{text}\nset +e; }} </dev/null; echo \"@@{self._n}\"\n")
        with self._changed:
            found = self._changed.wait_for(lambda: re.search(
                rf"@@{self._n}\n|@@end\n|/v1/operations/op_[0-9a-f]{{16}}/metadata\n", self.output[start:]), LIMIT_S)
            ended = "@@end" in self.output[start:]
        if not found or ended:
            raise AssertionError(f"{'this failed' if ended else 'this did not end'}:\n{text}\nOutput:\n{self.output[start:]}")
        ids = re.findall(r"op_[0-9a-f]{16}", self.output[start:])
        return ids[-1] if ids else None

    def close(self):
        """Ends what still runs. All of it is one process group, whose output ends with its last process."""
        for one in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, one)
            self._reader.join(15)
            if not self._reader.is_alive():
                break
        self.process.wait()
        self.process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()


def installed(prefix):
    """A prefix with what a C program is built from, by links into the build folder; where pkg-config finds it."""
    for name in ("include/ferry", "lib/pkgconfig"):
        (prefix / name).mkdir(parents=True)
    for folder in ("api", "client", "server"):
        for header in (ROOT / folder / "include" / "ferry").glob("*.h"):
            (prefix / "include" / "ferry" / header.name).symlink_to(header)
    for library in ("ferry", "ferry-worker"):
        text = (BUILD / "meson-private" / f"{library}.pc").read_text()
        for name, value in (("prefix", prefix), ("libdir", prefix / "lib"), ("includedir", prefix / "include")):
            text = re.sub(rf"^{name}=.*$", f"{name}={value}", text, flags=re.M)
        (prefix / "lib" / "pkgconfig" / f"{library}.pc").write_text(text)
        for path in BUILD.glob(f"*/lib{library}.so*"):
            (prefix / "lib" / path.name).symlink_to(path)
    return prefix / "lib" / "pkgconfig"


class Page:
    def __init__(self, path, directory):
        self.text, self.directory = path.read_text(encoding="utf-8"), directory
        self.shells, self.ports, self.id = {}, {}, None
        tools = directory / "tools"
        tools.mkdir()
        for name, text in (("scp", SCP), ("ferry", FERRY)):
            (tools / name).write_text(text)
            (tools / name).chmod(0o755)
        run = directory / "run"
        run.mkdir(mode=0o700)
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("FERRY", "XDG_", "UCX_"))} | {
            "PATH": f"{tools}:{BUILD}:{os.environ['PATH']}:/usr/sbin:/sbin", "HOME": str(directory),
            "XDG_RUNTIME_DIR": str(run), "PKG_CONFIG_PATH": str(installed(directory / "prefix")),
            "PYTHONPATH": str(ROOT / "client" / "python"),
            "FERRY_WORKER_LIBRARY": str(BUILD / "server" / "libferry-worker.so"), "PYTHONDONTWRITEBYTECODE": "1"}

    def here(self, text):
        text = text.replace("/usr/share/doc/ferry/examples", str(ROOT / "docs" / "examples"))
        text = PORT.sub(lambda port: f"{'127.0.0.1:' if port[1] else ''}{self.ports.setdefault(port[0], free_port())}", text)
        for name, address in HOSTS.items():
            text = re.sub(rf"{re.escape(address)}:(?=[\s\w])", f"{name}:", text).replace(address, "127.0.0.1")
        return text.replace("op_0123456789abcdef", self.id) if self.id else text

    def follow(self):
        for language, info, body in FENCE.findall(self.text):
            words = info.split()
            needs = [word.removeprefix("needs=") for word in words if word.startswith("needs=")]
            words = [word for word in words if not word.startswith("needs=")]
            missing = [program for group in needs for program in group.split(",") if not has(program)]
            if language == "sh" and ("skip" in words or missing):
                left_out["no " + missing[0] if missing else "marked skip"] += 1
            elif language == "sh":
                host = words[0] if words else "main"
                if host not in self.shells:
                    self.shells[host] = Shell(self.directory / (host if host in HOSTS else "main"), self.environment)
                self.id = self.shells[host].run(self.here(body)) or self.id
            elif words:
                folder = self.directory / "main"
                folder.mkdir(exist_ok=True)
                (folder / words[0]).write_text(self.here(body), encoding="utf-8")

    def close(self):
        for shell in self.shells.values():
            shell.close()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


class Documents(unittest.TestCase):
    """A test for each page is added below."""

    def follow(self, path):
        with tempfile.TemporaryDirectory(prefix="ferry-docs-") as directory:
            page = Page(path, pathlib.Path(directory))
            try:
                page.follow()
            finally:
                page.close()

    def test_the_steps_of_the_readme_can_be_followed(self):
        """At the top of a checkout that was built."""
        with tempfile.TemporaryDirectory(prefix="ferry-docs-") as directory:
            page = Page(ROOT / "README.md", pathlib.Path(directory))
            (page.directory / "main").mkdir()
            (page.directory / "main" / "build").symlink_to(BUILD)
            try:
                page.follow()
                self.assertIn("\nsame\n", page.shells["main"].output)
            finally:
                page.close()

    def test_the_index_names_every_page(self):
        index = (ROOT / "docs" / "README.md").read_text()
        for path in (ROOT / "docs").glob("*.md"):
            if path.name != "README.md":
                self.assertIn(f"]({path.name})", index)

    def test_each_function_has_a_manual_page(self):
        names = [name for library in ("client/libferry.map", "server/worker/libferry-worker.map")
                 for name in re.findall(r"\bferry_\w+(?=;)", (ROOT / library).read_text())]
        self.assertGreater(len(names), 100)
        for name in names:
            page = (BUILD / "client" / f"{name}.3").read_text()
            if page.startswith(".so"):
                page = (BUILD / "client" / page.split("/")[1].strip()).read_text()
            for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "RETURN VALUE", "SEE ALSO"):
                self.assertIn(f"\n.SH {section}\n", page, name)

    def test_each_sentence_of_doctor_has_its_cure(self):
        sentences = [words for path in sorted((ROOT / "client" / "cli").glob("doctor*.c"))
                     for words in doctor_sentences(path.read_text())]
        self.assertGreater(len(sentences), 25)
        self.assert_explained(word for words in sentences for word in words)

    def test_each_reason_against_a_transport_has_its_cure(self):
        code = "".join((ROOT / "server" / name).read_text()
                       for name in ("move/route.c", "move/peer.c", "move/ucx/rdma.c"))
        reasons = [one.replace('\\"', '"').removesuffix(": out of memory")
                   for one in re.findall(r'(?:return|[?:=])\s+"((?:[^"\\]|\\.)* (?:[^"\\]|\\.)*)"', code)]
        self.assertGreater(len(reasons), 20)
        self.assert_explained(reasons)

    def assert_explained(self, texts):
        page = " ".join((ROOT / "docs" / "troubleshooting.md").read_text().replace("`", "").split())
        self.assertEqual([text for text in texts if text not in page], [])


def literals(code):
    """The string literals of code, those side by side as one."""
    return ["".join(re.findall(r'"((?:[^"\\]|\\.)*)"', one)).replace('\\"', '"')
            for one in re.findall(r'(?:"(?:[^"\\]|\\.)*"\s*)+', code)]


def doctor_sentences(code):
    """Of each call of doctor_find the words of the sentence and of its cure that are in the code."""
    for start in (match.end() for match in re.finditer(r"doctor_find\(", code)):
        depth, quoted, end, commas = 1, False, start, []
        while depth:
            one = code[end]
            if quoted:
                end += one == "\\"
                quoted = one != '"'
            elif one == '"':
                quoted = True
            elif one == "," and depth == 1:
                commas.append(end)
            else:
                depth += (one == "(") - (one == ")")
            end += 1
        if "const char" in code[start:end]:
            continue  # its declaration
        words = [part.strip(" .,:") for one in literals(code[commas[1] + 1:end]) for part in re.split(r"%[.*\d]*(?:l?[uds]|zu)", one)]
        yield [word for word in words if " " in word]


def add_pages():
    for path in sorted((ROOT / "docs").glob("*.md")):
        if path.name not in ("README.md", "vllm.md"):  # the index has no command; scripts/test-vllm follows the other one
            setattr(Documents, f"test_{path.stem.lower().replace('-', '_')}_can_be_followed",
                    lambda self, path=path: self.follow(path))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    add_pages()
    try:
        unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
    finally:
        for reason, n in sorted(left_out.items()):
            print(f"left out: {n} block{'s' * (n > 1)} ({reason})")
