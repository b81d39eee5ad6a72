#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Workers that are short of descriptors, memory, threads or time."""
import json
import os
import pathlib
import resource
import subprocess
import tempfile
import time
import unittest

from starts import FERRYD, NETWORK, QUIET, SANITIZER, Faults, environment, sweep_step, unsanitized
from workers import LIMIT, Worker

MIB = 1 << 20


def limit(kind, value):
    return lambda: resource.setrlimit(kind, (value, value))


class FewResources(Faults):
    def sweep(self, flags, kind, limits):
        """The last must be enough."""
        ready = [self.ready(*flags, prepare=limit(kind, value)) for value in limits]
        self.assertTrue(ready[-1])

    def test_any_number_of_files_serves_or_is_too_few(self):
        self.sweep(QUIET, resource.RLIMIT_NOFILE, range(3, 130, sweep_step(7)))
        self.sweep(NETWORK, resource.RLIMIT_NOFILE, range(3, 259, sweep_step(51)))

    @unsanitized
    def test_any_size_of_memory_serves_or_is_too_small(self):
        self.sweep(QUIET, resource.RLIMIT_AS, range(8 * MIB, 1200 * MIB, 31 * MIB * sweep_step(4) // 4))

    @unsanitized
    def test_any_number_of_threads_serves_or_is_too_few(self):
        failing, ready = self.failing(), []
        for at in range(1, 16):
            failing.threads_at = at
            ready.append(self.ready(*(NETWORK if at % 2 else QUIET), env=self.preloaded))
        self.assertEqual({True, False}, set(ready))

    @unsanitized
    @unittest.skipIf(os.geteuid(), "it binds nobody with privileges, who alone can become another user")
    def test_a_user_that_may_have_no_threads_is_told(self):
        user = 61184 + os.getpid() % 4000  # of whom nothing else runs: it would count, too
        local = self.directory / "local"
        os.chown(self.directory, user, user)
        os.chown(local, user, user)

        def become(most):
            limit(resource.RLIMIT_NPROC, most)()
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)

        self.assertFalse(self.ready(*QUIET, "--local", local, served=False, prepare=lambda: become(1)))
        self.assertRegex(self.errors, "ferryd: (.*\n)*.*ulimit -u")
        self.assertTrue(self.ready(*QUIET, "--local", local, prepare=lambda: become(4096)))
        self.assertEqual(os.listdir(local), [])  # neither has left anything

    @unittest.skipIf("thread" in SANITIZER, "it writes a file when it starts")
    def test_a_log_that_may_not_grow_ends_nothing(self):
        """Where SIGXFSZ would end the worker."""
        def prepare():
            os.dup2(os.memfd_create("log"), 2)
            limit(resource.RLIMIT_FSIZE, 0)()

        self.assertTrue(self.ready(*QUIET, prepare=prepare))

    @unsanitized
    def test_libraries_that_print_or_start_a_thread_when_they_are_loaded(self):
        """Standard output is the worker's alone, and SIGTERM goes to no other thread."""
        self.failing()
        self.assertTrue(self.ready(*QUIET, env={**self.preloaded, "FERRY_FAILING_PRINTS": "1"}))
        self.assertIn("loaded\n", self.errors)
        self.assertTrue(self.ready(*QUIET, env={**self.preloaded, "FERRY_FAILING_STARTS": "1"}))

    def test_a_ready_line_that_cannot_be_written_ends_the_worker(self):
        for script, told in (("--listen 127.0.0.1:0 >/dev/full", "ferryd: the ready line could not be written: No space left on device"),
                             ("--listen 127.0.0.1:0 >&-", "standard output is closed"),
                             ("--help >/dev/full", "standard output cannot be written")):
            done = subprocess.run(["sh", "-c", f"exec {FERRYD} {script}"], stderr=subprocess.PIPE, text=True, timeout=LIMIT,
                                  env=environment(self.directory), check=False)
            self.assertEqual(done.returncode, 1, script)
            self.assertIn(told, done.stderr)

    def serves(self, *by):
        """A worker that is started so moves bytes to another one and back, and ends well."""
        with tempfile.TemporaryDirectory() as name:  # not in /dev/shm
            directory, other = pathlib.Path(name), self.worker("other")
            (directory / "local").mkdir(mode=0o700)
            worker = Worker(directory, "w", "--log-level", "debug", by=by)
            self.workers.append(worker)
            for _ in range(100):
                worker.get("/v1/worker")
            here, there = self.region(worker, 1000, b"x" * 1000), self.region(other, 1000)
            back = self.region(worker, 1000)
            self.ferry("copy", here, f"{other.url}/v1/regions/{there}", "-u", worker.url)
            self.ferry("copy", there, f"{worker.url}/v1/regions/{back}", "-u", other.url)
            self.assertEqual(self.ferry("get", f"/v1/regions/{back}/content", "-u", worker.url)[0], b"x" * 1000)
            worker.process.terminate()
            self.assertEqual((worker.process.stdout.read(), worker.process.wait(LIMIT)), (b"", 0))
            self.assertEqual(os.listdir(directory / "local"), [])
            worker.stop()
            self.workers.remove(worker)
        other.stop()

    def test_logs_that_cannot_be_written_do_not_end_the_worker(self):
        for end in ("2>/dev/full", "2>&-"):
            self.serves("sh", "-c", f'exec "$@" {end}', "-")

    def test_a_worker_needs_no_shared_memory_file_system(self):
        """In a container, 64 MiB of it are usual."""
        for options in ("size=64k", "ro"):
            mount = f"mount -t tmpfs -o {options} none /dev/shm"
            if subprocess.run(["unshare", "-rm", "sh", "-c", mount], stderr=subprocess.DEVNULL, check=False).returncode:
                self.skipTest("no file system can be mounted here")
            self.serves("unshare", "-rm", "sh", "-c", mount + ' && exec "$@"', "-")

    def group(self):
        """A group of processes that may have 96 MiB; None where none can be made."""
        for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory"):
            path = pathlib.Path(root, f"ferry-test-{os.getpid()}")
            for name in ("memory.max", "memory.limit_in_bytes"):
                try:
                    path.mkdir(exist_ok=True)
                    with open(path / name, "r+", encoding="ascii") as file:
                        file.write(str(96 * MIB))
                    return path
                except OSError:
                    if path.exists():
                        path.rmdir()
        return None

    def test_a_groups_limit_is_kept(self):
        """What the group has no room for is refused; its worker is not killed for it."""
        group = self.group()
        if not group:
            self.skipTest("no group can be made here")
        worker, data = self.worker("w"), os.urandom(16 * MIB)
        (group / "cgroup.procs").write_text(str(worker.process.pid))
        region = self.region(worker, len(data), data)
        status, problem = self.exchange("POST", "/v1/regions", '{"size":268435456}')
        self.assertEqual((status, json.loads(problem)["code"]), (507, "limit-reached"))
        self.assertTrue(self.exchange("GET", f"/v1/regions/{region}/content")[1] == data)
        worker.stop()
        self.eventually(lambda: subprocess.run(["rmdir", group], stderr=subprocess.DEVNULL, check=False).returncode == 0)

    @unsanitized
    def test_a_days_jump_of_the_clock_ends_nothing(self):
        failing, hold_s = self.failing(), 0.3
        worker = self.worker("w", env=self.preloaded)
        for days in (-1, 1):
            failing.wall_shift_s = 0
            region = self.region(worker, MIB)
            offer = self.make("/v1/operations", kind="readable", descriptors=[{"region": region}])
            failing.wall_shift_s = days * 24 * 3600
            # A wait takes its time, no more and no less, and nothing expires.
            before = time.monotonic()
            self.assertEqual(worker.get(f"/v1/operations/{offer}?wait_ms={int(hold_s * 1000)}")["status"], "INITIALIZED")
            self.assertTrue(hold_s <= time.monotonic() - before < 20 * hold_s)
            self.assertTrue(self.cycle())
            self.sweep_up(worker)


if __name__ == "__main__":
    unittest.main(verbosity=2)
