#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files that commands read: all their bytes arrive, or a line says why not."""
import os
import resource
import signal
import socket
import subprocess
import unittest

from workers import Case, LIMIT

MIB = 1 << 20


class Inputs(Case):
    def setUp(self):
        super().setUp()
        self.a = self.worker("a")

    def content(self, region):
        return self.ferry("get", f"/v1/regions/{region}/content", "-u", self.a.url)[0]

    def test_a_file_without_a_size_is_read_to_its_end(self):
        """As those of /proc."""
        with open("/proc/version", "rb") as version:
            data = version.read()
        for command in (("put", "/v1/regions/{}/content", "/proc/version"), ("copy", "/proc/version", "{}")):
            region = self.region(self.a, 4096)
            self.ferry(*(word.format(region) for word in command), "-u", self.a.url)
            self.assertEqual(self.content(region)[:len(data)], data)

    def test_put_and_post_tell_of_their_file(self):
        """Not of the worker, which is not at fault."""
        region = self.region(self.a, 4096)
        shrinks = "/sys/kernel/mm/transparent_hugepage/enabled"  # shorter than its size
        for file, why in (("/tmp", "/tmp is a directory"), ("/nonexistent", "/nonexistent: No such file"),
                          (shrinks, shrinks + " became shorter while it was read")):
            self.complains(why, "put", f"/v1/regions/{region}/content", file, "-u", self.a.url, status=2)
        self.complains("/tmp is a directory", "post", "/v1/regions", "@/tmp", "-u", self.a.url, status=2)

    def test_an_interrupt_while_it_waits_for_input(self):
        region, pipe = self.region(self.a, 4096), self.directory / "pipe"
        os.mkfifo(pipe)
        for command in (("put", f"/v1/regions/{region}/content", "-"), ("post", "/v1/regions", "-"), ("offer", "-"),
                        ("copy", "-", region), ("offer", pipe)):
            process = self.start(*command, "-u", self.a.url, stdin=-1)
            self.eventually(lambda: self.waits_for_signals(process))
            process.send_signal(signal.SIGINT)
            process.wait(LIMIT)  # its input stays open
            _, errors = self.finish(process, status=-signal.SIGINT)
            self.assertEqual(errors, "ferry: Interrupt: stopped, and nothing was left behind\n", command)

    def test_input_that_another_process_has_made_non_blocking(self):
        """As ssh and node do with what they share."""
        ours, its = socket.socketpair()
        its.setblocking(False)
        region = self.region(self.a, 6)
        process = self.start("copy", "-", region, "-u", self.a.url, stdin=its)
        its.close()
        self.eventually(lambda: process.poll() is not None or self.waits_for_signals(process))
        ours.sendall(b"so far")
        ours.close()
        self.finish(process)
        self.assertEqual(self.content(region), b"so far")

    def test_a_file_that_grows_is_taken_as_it_was(self):
        source = self.file("source", MIB)
        before = source.read_bytes()
        offer = self.start("offer", source, "-u", self.a.url)
        url = self.line(offer)
        with open(source, "ab") as file:
            file.write(b"more")
        self.assertEqual(self.ferry("fetch", url, "-u", self.a.url)[0], before)
        self.finish(offer)

    def test_a_block_device_is_not_read_into_memory(self):
        image = self.file("image", 2 * MIB)
        found = subprocess.run(["losetup", "--find", "--show", image], capture_output=True, text=True, check=False)
        if found.returncode:
            self.skipTest("no loop device: " + found.stderr)
        self.addCleanup(subprocess.run, ["losetup", "--detach", found.stdout.strip()], check=True)
        region = self.region(self.a, 2 * MIB)
        self.finish(self.start("copy", found.stdout.strip(), region, "-u", self.a.url,  # no file may be so large
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, MIB))))
        self.assertEqual(self.content(region) == image.read_bytes(), True)

    def test_odd_names(self):
        for name in ("-v", " two  blanks ", "new\nline", os.fsdecode(b"\xff not UTF-8"), "@at", "rgn_1", "-"):
            file, copy = self.directory / name, self.directory / (name + ".copy")
            file.write_bytes(os.fsencode(name))
            region = self.region(self.a, file.stat().st_size)
            for source in (file, "./" + name):
                self.finish(self.start("copy", source, region, "-u", self.a.url, cwd=self.directory))
                self.finish(self.start("copy", region, copy, "-u", self.a.url))
                self.assertEqual(copy.read_bytes(), file.read_bytes())


if __name__ == "__main__":
    unittest.main(verbosity=2)
