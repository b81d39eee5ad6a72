#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files that commands write: complete, or not there."""
import json
import os
import signal
import socket
import subprocess
import tempfile
import unittest

from workers import Case, FERRY, LIMIT, environment, http_answer

MIB = 1 << 20


class Outputs(Case):
    def setUp(self):
        super().setUp()
        self.a = self.worker("a")
        self.data = os.urandom(MIB)
        self.made = self.region(self.a, MIB, self.data)
        self.target = self.directory / "target"

    def parts(self):
        return [path.name for path in self.directory.iterdir() if ".part-" in path.name]

    def test_a_file_that_may_not_be_so_large(self):
        """RLIMIT_FSIZE sends a signal that would end the command, and leave the part."""
        url = self.line(self.start("offer", self.file("source", MIB), "-u", self.a.url))
        other = self.worker("b")
        for at, *command in ((self.a, "copy", self.made, str(self.target)),
                             (self.a, "get", f"/v1/regions/{self.made}/content", "-o", str(self.target)),
                             (other, "fetch", url, "-o", str(self.target))):
            done = subprocess.run(["bash", "-c", 'ulimit -f 100; exec "$@"', "-", FERRY, *command, "-u", at.url],
                                  capture_output=True, env=environment(self.directory), timeout=LIMIT, check=False)
            self.assertEqual(done.returncode, 2, done)
            self.assertRegex(done.stderr.decode(), r"\Aferry: .*/target: File too large(: 1\.0 MiB are needed)?\n\Z")
            self.assertEqual(self.parts(), [])
        self.nothing_left(other)

    def test_a_part_that_a_killed_command_has_left(self):
        """In a container each one has the same pid."""
        script = 'touch "$1.part-$$" "$1.part-$$-1"; exec "$2" copy "$3" "$1" -u "$4"'
        subprocess.run(["bash", "-c", script, "-", self.target, FERRY, self.made, self.a.url], check=True, timeout=LIMIT,
                       env=environment(self.directory))
        self.assertEqual(self.target.read_bytes(), self.data)
        self.assertEqual(len(self.parts()), 2)

    def test_the_longest_name(self):
        target = self.directory / ("x" * 255)
        self.ferry("copy", self.made, target, "-u", self.a.url)
        self.assertEqual(target.read_bytes(), self.data)

    def test_a_pipe_that_nobody_reads(self):
        os.mkfifo(self.directory / "pipe")
        for target in (self.directory / "pipe", "-"):  # where a part is written already, and the next write would wait for ever
            process = self.start("copy", self.made, target, "-u", self.a.url)
            if target == "-":
                process.stdout.read(1)
            self.eventually(lambda process=process: self.waits_for_signals(process))
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(LIMIT), -signal.SIGINT)
            self.assertEqual(process.stderr.read(), b"ferry: Interrupt: stopped, and nothing was left behind\n")

    def test_output_that_another_process_has_made_non_blocking(self):
        """As ssh and node do with what they share."""
        ours, its = socket.socketpair()
        its.setblocking(False)
        process = subprocess.Popen([FERRY, "copy", self.made, "-", "-u", self.a.url], stdout=its, stderr=subprocess.PIPE,
                                   env=environment(self.directory))
        self.started.append(process)
        its.close()
        self.eventually(lambda: process.poll() is not None or self.waits_for_signals(process))
        came = b""
        while data := ours.recv(65536):
            came += data
        ours.close()
        self.assertEqual(process.communicate(timeout=LIMIT)[1], b"")
        self.assertEqual(came, self.data)

    def test_an_open_file_without_a_name(self):
        """The link of its descriptor names a file that is gone, or never was."""
        for name in ("/dev/fd/{}", "/proc/self/fd/{}"):
            with tempfile.TemporaryFile(dir=self.directory) as file:
                file.write(b"before")
                file.flush()
                self.finish(self.start("copy", self.made, name.format(file.fileno()), "-u", self.a.url,
                                       pass_fds=(file.fileno(),)))
                file.seek(0)
                self.assertEqual(file.read(), b"before" + self.data)
        self.complains("/dev/fd/999: Bad file descriptor", "copy", self.made, "/dev/fd/999", "-u", self.a.url, status=2)
        self.assertEqual([path.name for path in self.directory.iterdir() if "deleted" in path.name], [])

    def test_a_descriptor_that_takes_no_bytes_leaves_the_offer(self):
        """Standard output that is closed is one: it has been opened for reading."""
        url = self.line(self.start("offer", self.file("source", MIB), "-u", self.a.url))
        for command in ('exec "$@" >&-', 'exec "$@" </dev/null >&0', 'exec "$@" -o /dev/fd/0 </dev/null'):
            done = subprocess.run(["bash", "-c", command, "-", FERRY, "fetch", url, "-u", self.a.url], timeout=LIMIT,
                                  capture_output=True, env=environment(self.directory), check=False)
            self.assertEqual(done.returncode, 2, command)
            self.assertIn("Bad file descriptor", done.stderr.decode())
        self.ferry("fetch", url, "-o", self.target, "-u", self.a.url)

    def test_parts_of_an_offer(self):
        source = self.file("source", 100000)
        bytes_of = source.read_bytes()
        url = self.line(self.start("offer", source, "--uses", "unlimited", "-u", self.a.url))
        for _ in range(2):
            self.ferry("fetch", url, "--remote", "64K:100", "--remote", "0:7", "-o", self.target, "-u", self.a.url)
            self.assertEqual(self.target.read_bytes(), bytes_of[65536:65636] + bytes_of[:7])
        self.complains("out-of-bounds", "fetch", url, "--remote", "99999:2", "-o", self.target, "-u", self.a.url, status=1)
        self.complains("is not OFFSET:SIZE", "fetch", url, "--remote", "5", "-o", self.target, "-u", self.a.url, status=2)

    def test_json_comes_when_the_file_is_complete(self):
        """Also where that is a device. The pipe has no room for it before it is read."""
        url = self.line(self.start("offer", "--uses", 2, "/proc/version", "-u", self.a.url))
        self.assertEqual(json.loads(self.ferry("fetch", url, "-o", "/dev/null", "--json", "-u", self.a.url)[0])["status"], "COMPLETE")
        reader, writer = os.pipe()
        while os.fstat(writer) and self.fill(writer):
            pass
        fetch = subprocess.Popen([FERRY, "fetch", url, "-o", str(self.target), "--json", "-u", self.a.url], stdout=writer,
                                 stderr=subprocess.PIPE, env=environment(self.directory))
        self.started.append(fetch)
        os.close(writer)
        self.eventually(self.target.exists)
        self.assertIsNone(fetch.poll())
        with open(reader, "rb") as pipe:
            self.assertEqual(json.loads(pipe.read().lstrip(b"\0"))["status"], "COMPLETE")
        self.finish(fetch)

    def fill(self, pipe):
        os.set_blocking(pipe, False)
        try:
            return os.write(pipe, bytes(65536))
        except BlockingIOError:
            return 0
        finally:
            os.set_blocking(pipe, True)

    def test_fewer_bytes_than_promised(self):
        """By HTTP. A file of the promised size would have zeros at its end."""
        region = {"id": "rgn_" + "1" * 16, "size": 1000, "device": "cpu", "state": "ready", "path": "/proc/1/fd/1", "in_use": 0}
        content = http_answer(b"x" * 600, 206, "Content-Range: bytes 0-999/1000")
        with self.answering(lambda _, path: content if path.endswith("content") else region) as url:
            for target in (self.target, "/dev/null"):
                self.complains("600 of 1000 bytes came", "copy", region["id"], target, "-u", url, status=3)
        self.assertFalse(self.target.exists())
        self.assertEqual(self.parts(), [])

    def test_json_of_a_worker_at_an_odd_path(self):
        odd = self.worker("odd", listen=(f"unix:{self.directory}/o\"dd.sock",))
        offer = self.start("offer", "/proc/version", "--json", "-u", odd.url)
        offered = json.loads(self.line(offer))
        self.ferry("fetch", offered["url"], "-o", self.target, "-u", self.a.url)
        self.finish(offer)


if __name__ == "__main__":
    unittest.main(verbosity=2)
