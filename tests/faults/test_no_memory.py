#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each allocation fails once, in its turn: the worker says so in a line and ends, or serves. It never dies of it."""
import os
import unittest

from starts import QUIET, Faults, sweep_step, unsanitized


class NoMemory(Faults):
    @unsanitized
    def test_a_start_without_memory_fails_in_a_line(self):
        failing, at, refused, named = self.failing(), 1, 0, 0
        while True:
            failing.memory_failed, failing.memory_at = 0, at
            refused += not self.ready(*QUIET, served=False, env=self.preloaded)
            if "started: Cannot allocate memory" in self.errors:
                self.assertIn("ulimit -v", self.errors)  # the limits that may be the cause
                named += 1
            if not failing.memory_failed:  # the whole life of a worker has fewer
                break
            at += 1 if at < 20 else sweep_step(29)
        print(f"{at} allocations, {refused} starts refused")
        self.assertTrue(5 <= refused <= at and named > 0, (refused, named))

    @unsanitized
    def test_a_worker_without_memory_lives_on(self):
        failing, at = self.failing(), 1
        worker = self.worker("w", env=self.preloaded)
        worker.expect("level=warn", "level=error")
        descriptors = f"/proc/{worker.process.pid}/fd"
        self.assertTrue(self.cycle())
        self.sweep_up(worker)
        before = len(os.listdir(descriptors))
        while True:
            failing.memory_failed, failing.memory_fails, failing.memory_at = 0, 1 if at % 2 else 3, at
            self.cycle()
            came, failing.memory_at = failing.memory_failed, 0
            self.sweep_up(worker)
            if not came:
                break
            at += 1 if at < 10 else sweep_step(13)
        print(f"{at} allocations")
        self.assertTrue(self.cycle())
        self.eventually(lambda: len(os.listdir(descriptors)) <= before + 8)  # it closes what clients have closed
        worker.stop()
        self.assertEqual(worker.process.returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
