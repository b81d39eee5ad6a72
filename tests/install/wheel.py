#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs what the wheel of scripts/wheel has installed, with the Python that has it: moves bytes through shared memory and
through its own UCX over TCP.

wheel.py [--rdma]

--rdma  loads UCX's modules for RDMA instead, which needs rdma-core of the system
"""
import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import ferry

SITE = pathlib.Path(ferry.__file__).parents[1]
LIBRARIES = SITE / "ferry.libs"
SIZE = 10 << 20


def loaded():
    """The files of libraries in this process."""
    return set(re.findall(r" (/\S+\.so\S*)$", pathlib.Path("/proc/self/maps").read_text(), re.M))


def move(transport, **options):
    with tempfile.TemporaryDirectory() as folder, \
            ferry.Worker(name="a", local=options.get("local") or folder, data_listen=options.get("data_listen")) as a, \
            ferry.Worker(name="b", local=options.get("local") or folder, data_listen=options.get("data_listen")) as b:
        source, target = a.allocate(SIZE), b.allocate(SIZE)
        source[:] = os.urandom(SIZE)
        with a.create("readable", [source]) as offer, b.create("read", [target], remote=offer.metadata) as read:
            read.wait(60)
            assert read.transport == transport, read.transport
            assert source == target
    print(f"{SIZE} bytes over {transport}")


def programs():
    """ferryd serves, and ferry asks it."""
    folder = os.path.dirname(sys.executable)
    with subprocess.Popen([os.path.join(folder, "ferryd"), "--listen", "127.0.0.1:0", "--local", "off"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as worker:
        url = json.loads(worker.stdout.readline())["http"][0]
        text = subprocess.run([os.path.join(folder, "ferry"), "-u", url, "devices", "-j"], check=True, capture_output=True).stdout
        print("ferryd", json.loads(text).get("rdma_error", "lists RDMA devices"))
        worker.terminate()
        assert worker.wait(30) == 0


def rdma():
    for name in ("libuct_ib.so.*", "libuct_rdmacm.so.*"):
        module, = (LIBRARIES / "ucx").glob(name)
        ctypes.CDLL(str(module))
    mine = {path for path in loaded() if path.startswith(str(LIBRARIES))}
    assert any("/libuct-" in path for path in mine), mine
    print("loaded, by", *sorted(path for path in loaded() if "ibverbs" in path or "rdmacm" in path))


if sys.argv[1:] == ["--rdma"]:
    rdma()
else:
    move("shm")
    move("tcp", local="off", data_listen="127.0.0.1:0")
    ucx = {path for path in loaded() if re.search(r"lib(ferry-)?uc[pstm]\b", path)}
    assert ucx and all(path.startswith(str(LIBRARIES)) for path in ucx), ucx
    licenses, = SITE.glob("ferry-*.dist-info/licenses")
    assert {"LICENSE", "libucx0", "libmicrohttpd12", "libcurl4", "libjson-c5"} <= {path.name for path in licenses.iterdir()}
    programs()
