# SPDX-License-Identifier: Apache-2.0
"""What the tests share: another process with a worker, and skips that scripts/test counts."""
import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import ferry

HERE = os.path.dirname(os.path.abspath(__file__))


def local_directory():
    """A directory of workers of this test alone; set for this process and its children."""
    path = tempfile.mkdtemp(prefix="ferry-py-")
    os.environ["FERRY_LOCAL"] = path
    return path


class Peer:
    """peer.py in a process of its own: one JSON line each way for a call."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, os.path.join(HERE, "peer.py")], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def send(self, **call):
        self.process.stdin.write(json.dumps(call) + "\n")
        self.process.stdin.flush()

    def receive(self):
        line = self.process.stdout.readline()
        if not line:
            raise EOFError("the peer has ended")
        return json.loads(line)

    def call(self, **call):
        self.send(**call)
        return self.receive()

    async def receive_soon(self):
        return await asyncio.get_running_loop().run_in_executor(None, self.receive)

    def stand_still(self):
        """For good: what somebody begins with it does not end by itself."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def close(self):
        self.process.stdin.close()
        status = self.process.wait(30)
        self.process.stdout.close()
        return status

    def kill(self):
        self.process.kill()
        self.process.wait(30)
        self.process.stdin.close()
        self.process.stdout.close()


@contextlib.contextmanager
def fails(code, kind=ferry.FerryError):
    """As assertRaises, of an error with that code."""
    with unittest.TestCase().assertRaises(kind) as raised:
        yield raised
    unittest.TestCase().assertEqual(raised.exception.code, code)


def needs(name):
    """The module of that name; skips the test where it is missing."""
    try:
        return __import__(name)
    except ImportError:
        raise unittest.SkipTest(f"{name} is not installed") from None


class Daemon:
    """ferryd, on a free port where listen names none."""

    def __init__(self, *flags, listen="127.0.0.1:0"):
        self.process = subprocess.Popen([os.environ["FERRYD"], "--listen", listen, *flags],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = json.loads(self.process.stdout.readline())["http"][0]

    def close(self):
        self.process.terminate()
        self.process.wait(30)
        self.process.stdout.close()


def until(condition, seconds=10):
    """Waits for what no event tells of."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("it did not come true")
        time.sleep(0.005)


class _Result(unittest.TextTestResult):
    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print(f"[  SKIPPED ] {test.id().rsplit('.', 1)[-1]}", flush=True)  # as cmocka says it
        print(f"{test.id()}: {reason}", flush=True)


def main():
    directory = local_directory()
    try:
        program = unittest.main(module="__main__", exit=False,
                                testRunner=unittest.TextTestRunner(resultclass=_Result, verbosity=2))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    sys.stdout.flush()
    sys.exit(not program.result.wasSuccessful())
