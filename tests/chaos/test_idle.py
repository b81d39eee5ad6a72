#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A worker that has nothing to do sleeps: also when links are open, a request is parked and an offer waits. It wakes once a
second to sweep what is due, and two or three times more for what UCX keeps alive."""
import os
import pathlib
import re
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))
from workers import Case  # noqa: E402

SECONDS = 3
# A thread that did not sleep would take all of the time; a few wake-ups take 2 to 25 ms, as busy as the machine is.
PROCESSOR_S = SECONDS / 20


class Idle(Case):
    def spent(self, worker):
        """Wake-ups of its threads, and seconds of a processor."""
        tasks = pathlib.Path(f"/proc/{worker.process.pid}/task").iterdir()
        wakes = sum(int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text(), re.M)[1]) for task in tasks)
        return wakes, time.clock_gettime(~worker.process.pid << 3 | 2)  # CPUCLOCK_SCHED

    def sleeps(self, worker, wakes_max):
        before = self.spent(worker)
        time.sleep(SECONDS)
        wakes, processor_s = (now - was for now, was in zip(self.spent(worker), before))
        print(f"{wakes} wake-ups and {processor_s * 1000:.0f} ms of processor time in {SECONDS} s")
        if "thread" not in os.environ["FERRY_SANITIZER"]:  # which has a thread of its own, which wakes
            self.assertLessEqual(wakes, wakes_max)
            self.assertLessEqual(processor_s, PROCESSOR_S)

    def test_a_fresh_worker_sleeps(self):
        self.sleeps(self.worker("quiet"), 2 * SECONDS)  # it wakes once or twice

    def test_a_worker_with_links_and_waiters_sleeps(self):
        quiet = self.worker("quiet", "--data-listen", "127.0.0.1:0")
        local, network = self.worker("local"), self.worker("network", "--data-listen", "127.0.0.1:0", local="off")
        for one, other in ((quiet, local), (local, quiet), (quiet, network), (network, quiet)):
            self.assertEqual(other.read(self.region(other, 1000), one.offer(self.region(one, 1000))["metadata"])["status"], "COMPLETE")
        offer = quiet.offer(self.region(quiet, 4096))
        parked = self.start("wait", offer["id"], "-u", quiet.url)
        metrics = self.ferry("get", "/metrics", "-u", quiet.url)[0].decode()
        for transport in ("local", "ucx"):  # each side that was active has opened one
            self.assertIn(f'ferry_links{{transport="{transport}"}} 2\n', metrics)
        self.eventually(lambda: b"\nferry_http_waiters 1\n" in self.ferry("get", "/metrics", "-u", quiet.url)[0])
        self.sleeps(quiet, 6 * SECONDS)  # it wakes 10 or 11 times
        parked.kill()


if __name__ == "__main__":
    unittest.main(verbosity=2)
