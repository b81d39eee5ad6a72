# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel (PEP 517): libferry-worker by meson, out of the source tree around this folder, and the package.

Needs what scripts/setup installs: a C compiler, UCX, libmicrohttpd, libcurl, json-c, libibverbs, zlib, xxhash. meson,
ninja and PyYAML come from the package index where the system has none.
"""
import base64
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
SONAME = "libferry-worker.so.0"
SOURCES = ["meson.build", "meson_options.txt", "LICENSE", "api", "server", "client", "openapi", "scripts/embed",
           "scripts/make-docs"]


def source_root():
    """The repository, or what build_sdist took of it."""
    for root in (os.path.dirname(os.path.dirname(HERE)), os.path.join(HERE, "source")):
        if os.path.exists(os.path.join(root, "server", "worker.c")):
            return root
    sys.exit("the sources of libferry-worker are not beside this package: build from a whole checkout")


def version():
    with open(os.path.join(source_root(), "meson.build"), encoding="utf-8") as file:
        return re.search(r"version : '([^']+)'", file.read())[1]


def library(folder):
    """Builds libferry-worker in folder; its path."""
    run(["meson", "setup", "--buildtype=release", "-Dtests=false", folder, source_root()])
    target = f"server/libferry-worker.so.{version()}"
    run(["ninja", "-C", folder, target])
    return os.path.join(folder, target)


def succeeds(command):
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def run(command):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    except FileNotFoundError:
        sys.exit(f"{command[0]} is not installed: scripts/setup installs it")
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed; scripts/setup installs what is missing:\n{done.stdout}")


def metadata():
    with open(os.path.join(HERE, "README.md"), encoding="utf-8") as file:
        readme = file.read()
    return (f"Metadata-Version: 2.1\nName: ferry\nVersion: {version()}\nSummary: Moves memory between processes\n"
            "License: Apache-2.0\nRequires-Python: >=3.9\nProvides-Extra: vllm\n"
            "Requires-Dist: vllm<0.33,>=0.32; extra == \"vllm\"\n"
            "Description-Content-Type: text/markdown\n\n" + readme)


def tag():
    return "py3-none-" + re.sub(r"[.-]", "_", sysconfig.get_platform())


def info_folder():
    return f"ferry-{version()}.dist-info"


def info_files():
    """Contents of that folder by name."""
    return {"METADATA": metadata(),
            "WHEEL": f"Wheel-Version: 1.0\nGenerator: ferry_build\nRoot-Is-Purelib: false\nTag: {tag()}\n",
            "entry_points.txt": "[vllm.general_plugins]\nferry = ferry.vllm:register\n"}


class Wheel:
    """A wheel being written. Each file is recorded."""

    def __init__(self, folder):
        self.info = info_folder()
        self.name = f"ferry-{version()}-{tag()}.whl"
        self.zip = zipfile.ZipFile(os.path.join(folder, self.name), "w", zipfile.ZIP_DEFLATED)
        self.record = []
        for name, content in info_files().items():
            self.add(f"{self.info}/{name}", content)

    def add(self, name, content):
        data = content.encode() if isinstance(content, str) else content
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}")
        self.zip.writestr(name, data)

    def add_file(self, name, path):
        with open(path, "rb") as file:
            self.add(name, file.read())

    def close(self):
        record = f"{self.info}/RECORD"
        self.zip.writestr(record, "\n".join(self.record + [f"{record},,", ""]))
        self.zip.close()
        return self.name


def get_requires_for_build_wheel(config_settings=None):
    # meson, and scripts/make-docs by the python3 of the path, may not see the system's modules: pip hides them here.
    needed = {"meson": ["meson", "--version"], "ninja": ["ninja", "--version"],
              "PyYAML": ["python3", "-c", "import yaml"]}
    return [name for name, command in needed.items() if not succeeds(command)]


get_requires_for_build_editable = get_requires_for_build_wheel


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """Without it pip compiles everything while it says "Preparing metadata"."""
    folder = os.path.join(metadata_directory, info_folder())
    os.makedirs(folder)
    for name, content in info_files().items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(content)
    return info_folder()


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    wheel = Wheel(wheel_directory)
    for folder, _, names in sorted(os.walk(os.path.join(HERE, "ferry"))):
        for name in sorted(names):
            if name.endswith((".py", ".typed")):
                path = os.path.join(folder, name)
                wheel.add_file(os.path.relpath(path, HERE), path)
    with tempfile.TemporaryDirectory() as folder:
        wheel.add_file(f"ferry/{SONAME}", library(folder))
    return wheel.close()


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(library(folder), os.path.join(HERE, "ferry", SONAME))
    wheel = Wheel(wheel_directory)
    wheel.add("ferry.pth", HERE + "\n")
    return wheel.close()


def build_sdist(sdist_directory, config_settings=None):
    root = f"ferry-{version()}"

    def wanted(member):
        name = os.path.basename(member.name)
        skipped = member.name.endswith("source/client/python/ferry_build.py") or name == "__pycache__"
        return None if skipped or name.startswith("libferry-worker.so") else member

    with tarfile.open(os.path.join(sdist_directory, root + ".tar.gz"), "w:gz") as archive:
        data = metadata().encode()
        member = tarfile.TarInfo(f"{root}/PKG-INFO")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
        for name in ("pyproject.toml", "ferry_build.py", "README.md", "ferry"):
            archive.add(os.path.join(HERE, name), f"{root}/{name}", filter=wanted)
        for name in SOURCES:
            archive.add(os.path.join(source_root(), name), f"{root}/source/{name}", filter=wanted)
    return root + ".tar.gz"
