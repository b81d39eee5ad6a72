# SPDX-License-Identifier: Apache-2.0
"""Starts of ferryd that may fail, and cycles of a worker that has to live through it."""
import ctypes
import json
import mmap
import os
import pathlib
import socket
import subprocess
import sys
import threading
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))
from workers import FERRYD, Case, environment  # noqa: E402

QUIET = ("--listen", "127.0.0.1:0", "--name", "w")
NETWORK = (*QUIET, "--data-listen", "127.0.0.1:0")
END_S = 20  # of a start
SANITIZER = os.environ["FERRY_SANITIZER"]  # "none" without one
unsanitized = unittest.skipUnless(SANITIZER == "none", "whose allocator and threads would count, and map terabytes")


class Failing(ctypes.Structure):
    """struct failing of failing.h."""
    _fields_ = [(name, ctypes.c_long) for name in ("memory_at", "memory_fails", "memory_failed", "threads_at", "wall_shift_s")]


def sweep_step(usual):
    """How far apart what is tried lies: 1 with FERRY_SWEEP in the environment, which takes its time."""
    return 1 if "FERRY_SWEEP" in os.environ else usual


class Faults(Case):
    def failing(self):
        """What fails in processes with self.preloaded in their environment."""
        fd = os.memfd_create("failing")
        self.addCleanup(os.close, fd)
        os.truncate(fd, ctypes.sizeof(Failing))
        self.preloaded = {"LD_PRELOAD": os.environ["FERRY_FAILING_LIBRARY"], "FERRY_FAILING": f"/proc/{os.getpid()}/fd/{fd}"}
        failing = Failing.from_buffer(mmap.mmap(fd, ctypes.sizeof(Failing)))
        failing.memory_fails = 1
        return failing

    def ready(self, *flags, served=True, prepare=None, env=()):
        """Whether ferryd, limited by prepare, gets ready: then it serves and ends well. Else it ends by itself with a
        sentence in its last line. self.errors has what it said."""
        with open(self.directory / "errors", "w+b") as errors, open(FERRYD, "rb") as program:  # another user may not reach its path
            process = subprocess.Popen([FERRYD, *flags], executable=f"/proc/self/fd/{program.fileno()}", pass_fds=[program.fileno()],
                                       stdout=subprocess.PIPE, stderr=errors, preexec_fn=prepare,
                                       env=environment(self.directory, **dict(env)))
            self.started.append(process)
            timer = threading.Timer(END_S, process.kill)
            timer.start()
            line = process.stdout.readline()
            if line:
                self.assertTrue(line.startswith(b'{"event":"ready",'), line)
                if served:
                    with urllib.request.urlopen(json.loads(line)["http"][0] + "/livez", timeout=END_S) as answer:
                        self.assertEqual(answer.status, 200)
                process.terminate()
            self.assertEqual(process.stdout.read(), b"")
            status = process.wait()
            timer.cancel()
            errors.seek(0)
            self.errors = errors.read().decode(errors="replace")
        if line:
            self.assertEqual(status, 0, self.errors)
        else:
            self.assertIn(status, range(1, 128), self.errors)
            self.assertIn(": ", self.errors.splitlines()[-1])
        return bool(line)

    def exchange(self, method, path, body=""):
        """Status and body of one answer; 0 when the worker had no memory for so much as a connection."""
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n" \
               "Connection: close\r\n\r\n"
        data = b""
        try:
            with socket.create_connection(("127.0.0.1", int(self.workers[0].url.rsplit(":", 1)[1])), END_S) as connection:
                connection.sendall((head + body).encode())
                while more := connection.recv(65536):
                    data += more
        except ConnectionError:
            pass
        self.assertRegex(data, rb"\A(HTTP/1\.1 \d|\Z)")
        return int(data[9:12] or 0), data.partition(b"\r\n\r\n")[2]

    def ask(self, method, path, **body):
        """JSON of an answer, {} of another one; None of none, and of a refusal, which must be for want of memory."""
        status, content = self.exchange(method, path, json.dumps(body) if body else "")
        if status // 100 == 2:
            return json.loads(content) if content.startswith(b"{") and content.rstrip().endswith(b"}") else {}
        self.assertIn(status, (0, 503, 507), content)
        return None

    def make(self, path, **body):
        return (self.ask("POST", path, **body) or {}).get("id")

    def cycle(self, size=100000):
        """Two regions, an offer, a read of it by the worker itself, lists and metrics: as far as it gets; whether it does."""
        source, target = self.make("/v1/regions", size=size), self.make("/v1/regions", size=size)
        if not source or not target:
            return False
        self.ask("PUT", f"/v1/regions/{source}/content")
        offer = self.ask("POST", "/v1/operations?include=metadata", kind="readable", descriptors=[{"region": source}]) or {}
        read = offer.get("metadata") and self.make("/v1/operations", kind="read", descriptors=[{"region": target}],
                                                   remote_metadata=offer["metadata"])
        ended = read and self.ask("GET", f"/v1/operations/{read}?wait_ms=10000")
        for path in (f"/v1/regions/{target}/content", "/v1/operations", "/v1/peers", "/metrics"):
            self.ask("GET", path)
        return bool(ended) and ended.get("status") == "COMPLETE"

    def sweep_up(self, worker):
        """Deletes what the cycle has left; with memory again, all of that works, and every operation ends."""
        for operation in worker.get("/v1/operations")["operations"]:
            self.assertEqual(self.exchange("DELETE", f"/v1/operations/{operation['id']}")[0], 204)
        for region in worker.get("/v1/regions")["regions"]:  # which an operation has until it is quiet
            self.eventually(lambda region=region: self.exchange("DELETE", f"/v1/regions/{region['id']}")[0] == 204)
        self.nothing_left(worker)
