# SPDX-License-Identifier: Apache-2.0
"""Real workers for the tests of the ferry command, in a directory that goes with the test."""
import contextlib
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import socketserver
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

FERRY = os.environ["FERRY"]
FERRYD = os.environ["FERRYD"]
LIMIT = 60
LOOK_S = 0.01  # how often eventually() looks


class Worker:
    """One ferryd on a free port. expect: texts that a warning in its log may have."""

    def __init__(self, directory, name, *flags, listen=("127.0.0.1:0",), local=None, env=(), by=()):
        """by: a command that ends as the one behind it."""
        self.directory, self.name, self.expected = directory, name, []
        self.log = directory / f"{name}.log"
        command = [*by, FERRYD, "--name", name, "--local", local or str(directory / "local"), *flags]
        for address in listen:
            command += ["--listen", address]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log,
                                            env=environment(directory, **dict(env)))
        self.ready = json.loads(self.process.stdout.readline())
        self.url = self.ready["http"][0]

    def expect(self, *texts):
        self.expected += texts

    def get(self, path):
        with urllib.request.urlopen(self.url + path, timeout=LIMIT) as answer:
            return json.load(answer)

    def post(self, path, **body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=LIMIT) as answer:
            return json.load(answer)

    def offer(self, region, **fields):
        return self.post("/v1/operations?include=metadata", **{"kind": "readable", "descriptors": [{"region": region}], **fields})

    def read(self, region, metadata):
        """How a read of all that is offered ended."""
        return self.post("/v1/operations?wait_ms=30000", kind="read", descriptors=[{"region": region}], remote_metadata=metadata)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def left(self):
        """Ids of all regions and operations."""
        return [one["id"] for what in ("regions", "operations") for one in self.get("/v1/" + what)[what]]

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(LIMIT)
        self.process.stdout.close()

    def warnings(self):
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if ("level=warn" in line or "level=error" in line or "Sanitizer" in line)
                and not any(text in line for text in self.expected)]


def environment(directory, **more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FERRY_")}
    return {**kept, "XDG_CONFIG_HOME": str(directory), "XDG_RUNTIME_DIR": str(directory), **more}


def http_answer(body, status=200, *headers):
    """Of HTTP, with bytes or with JSON: from 400 on a problem document."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return "\r\n".join((f"HTTP/1.1 {status} Such", "Connection: close", f"Content-Length: {len(body)}", *headers,
                        f"Content-Type: application/{'problem+' if status >= 400 else ''}json", "\r\n")).encode() + body


def stand_still(process):
    """SIGSTOP, and waits until every thread of it has stopped: on a busy machine they run on for a while."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)


class Url(str):
    """That of a server of a test's own."""


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="ferry-cli-", dir="/dev/shm"))
        os.chmod(self.directory, 0o700)
        (self.directory / "local").mkdir(mode=0o700)
        self.workers, self.started = [], []

    def tearDown(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        for worker in self.workers:
            worker.stop()
        warnings = [line for worker in self.workers for line in worker.warnings()]
        shutil.rmtree(self.directory)
        self.assertEqual(warnings, [])

    def worker(self, name, *flags, **more):
        self.workers.append(Worker(self.directory, name, *flags, **more))
        return self.workers[-1]

    def names(self, text):
        """The file of workers. Returns its path."""
        path = self.directory / "ferry" / "workers"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    def region(self, worker, size, data=None):
        output, _ = self.ferry("post", "/v1/regions", json.dumps({"size": size}), "-u", worker.url)
        region = json.loads(output)["id"]
        if data is not None:
            self.ferry("put", f"/v1/regions/{region}/content", "-", "-u", worker.url, data=data)
        return region

    def file(self, name, size):
        path = self.directory / name
        path.write_bytes(os.urandom(size))
        return path

    def start(self, *arguments, **more):
        process = subprocess.Popen([FERRY, *map(str, arguments)], stdin=more.pop("stdin", subprocess.DEVNULL),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=more.pop("env", environment(self.directory)), **more)
        self.started.append(process)
        return process

    def line(self, process):
        """The first line of its standard output; what it complains of instead fails the test."""
        ready, _, _ = select.select([process.stdout], [], [], LIMIT)
        line = process.stdout.readline().decode().strip() if ready else ""
        if not line:
            process.kill()
            self.fail(process.communicate()[1].decode())
        return line

    def finish(self, process, status=0):
        output, errors = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, status, errors.decode())
        return output, errors.decode()

    def ferry(self, *arguments, status=0, data=None):
        done = subprocess.run([FERRY, *map(str, arguments)], input=data if data is not None else b"",
                              capture_output=True, env=environment(self.directory), timeout=LIMIT, check=False)
        errors = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, status, errors)
        return done.stdout, errors

    def complains(self, text, *arguments, status, **more):
        """One line that says what happened."""
        output, errors = self.ferry(*arguments, status=status, **more)
        self.assertRegex(errors, r"\Aferry: [^\n]*\n\Z")
        self.assertIn(text, errors)
        self.assertEqual(output, b"")

    def nothing_left(self, *workers):
        for worker in workers:
            self.assertEqual(worker.left(), [], worker.name)

    def tunnel(self, worker, on_answer=None, listener=None):
        """A port of ours that leads to the worker's. on_answer sees what the worker says before it is passed on."""
        listener = listener or socket.create_server(("127.0.0.1", 0))
        host, port = worker.url.removeprefix("http://").split(":")

        def pump(source, target, see):
            try:
                while data := source.recv(65536):
                    if see:
                        see(data)
                    target.sendall(data)
                target.shutdown(socket.SHUT_WR)
            except OSError:
                pass

        def serve():
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                server = socket.create_connection((host, int(port)))
                self.addCleanup(client.close)
                self.addCleanup(server.close)
                threading.Thread(target=pump, args=(client, server, None), daemon=True).start()
                threading.Thread(target=pump, args=(server, client, on_answer), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        self.addCleanup(listener.close)
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    @contextlib.contextmanager
    def answering(self, *answers):
        """The URL of a server that gives every request the same answer, or each the next of several: bytes, JSON, or
        what a function says of a method and a path. Its asked has the requests: method and path, headers, body."""
        answers, asked = list(answers), []

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                (method, path, _), headers = self.rfile.readline().decode().split(), {}
                while (line := self.rfile.readline()) not in (b"\r\n", b""):
                    name, _, value = line.decode().partition(":")
                    headers[name.lower()] = value.strip()
                asked.append((f"{method} {path}", headers, self.rfile.read(int(headers.get("content-length", 0)))))
                given = answers.pop(0) if len(answers) > 1 else answers[0]
                given = given(method, path) if callable(given) else given
                self.wfile.write(given if isinstance(given, bytes) else http_answer(given))

        with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": LOOK_S}, daemon=True).start()
            url = Url(f"http://127.0.0.1:{server.server_address[1]}")
            url.asked = asked
            yield url
            server.shutdown()

    def waits_for_signals(self, process):
        """It sleeps, and takes SIGINT."""
        with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
            facts = {name: value for name, _, value in (line.partition(":\t") for line in status)}
        return facts["State"].startswith("S") and int(facts["SigCgt"], 16) >> (signal.SIGINT - 1) & 1

    def eventually(self, check):
        """Polls, for a limited time, for what another process does and tells nobody of."""
        end = time.monotonic() + LIMIT
        while not check():
            self.assertLess(time.monotonic(), end)
            time.sleep(LOOK_S)
