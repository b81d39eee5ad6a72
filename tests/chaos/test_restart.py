#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A worker that was killed and comes back: nothing of the dead one is left, nothing of others is lost."""
import os
import pathlib
import socket
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "cli"))
from workers import Case  # noqa: E402

SIZE = 1 << 20


class Restart(Case):
    def sockets(self, *workers):
        """Which of them have their socket still."""
        return [f"{worker.epoch}.sock" in os.listdir(self.directory / "local") for worker in workers]

    def fresh(self, name, *flags, **more):
        worker = self.worker(name, *flags, **more)
        worker.epoch = worker.get("/v1/worker")["epoch"]
        return worker

    def serve(self, source, target):
        data = os.urandom(SIZE)
        into = self.region(target, SIZE)
        self.assertEqual(target.read(into, source.offer(self.region(source, SIZE, data))["metadata"])["status"], "COMPLETE")
        self.assertTrue(self.ferry("get", f"/v1/regions/{into}/content", "-u", target.url)[0] == data)

    def test_the_next_start_or_a_peer_removes_the_socket_of_a_dead_worker_alone(self):
        for finder in ("start", "peer"):
            dead, other, data = self.fresh("dead"), self.fresh("other"), os.urandom(SIZE)
            other.expect("error=peer-unreachable")
            region = self.region(other, SIZE, data)
            metadata = dead.offer(self.region(dead, SIZE))["metadata"]
            dead.kill()
            self.assertEqual(self.sockets(dead, other), [True, True])
            if finder == "start":
                self.serve(other, self.fresh("again"))
            else:
                self.assertEqual(other.read(self.region(other, SIZE), metadata)["error"]["code"], "peer-unreachable")
            self.assertEqual(self.sockets(dead, other), [False, True])
            self.assertTrue(self.ferry("get", f"/v1/regions/{region}/content", "-u", other.url)[0] == data)

    def test_a_worker_that_comes_back_has_its_addresses_and_another_epoch(self):
        held = [socket.socket() for _ in range(2)]  # so that the ports are given to nobody who does not ask for them
        for one in held:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(("127.0.0.1", 0))
            self.addCleanup(one.close)
        http, data = (f"127.0.0.1:{one.getsockname()[1]}" for one in held)
        dead = self.fresh("w", "--data-listen", data, listen=[http], local="off")
        other = self.fresh("other", "--data-listen", "127.0.0.1:0", local="off")
        other.expect("error=stale-metadata")
        offer = dead.offer(self.region(dead, SIZE, b"x" * SIZE))
        self.serve(dead, other)
        dead.kill()
        again = self.fresh("w", "--data-listen", data, listen=[http], local="off")
        self.assertEqual((again.url, again.ready["data"]), ("http://" + http, data))
        self.assertNotEqual(again.epoch, dead.epoch)
        self.ferry("show", offer["id"], "-u", again.url, status=1)
        target = self.region(other, SIZE, bytes(SIZE))  # what the dead one offered is not what the new one has
        self.assertEqual(other.read(target, offer["metadata"])["error"]["code"], "stale-metadata")
        self.assertTrue(self.ferry("get", f"/v1/regions/{target}/content", "-u", other.url)[0] == bytes(SIZE))
        self.serve(again, other)

    def test_what_is_no_workers_socket_is_never_removed(self):
        """Files that look like one, but are somebody's own."""
        names = ["0123456789abcde.sock", "0123456789abcdef.sock", "0123456789abcdef.sock.x", "0123456789abcdeg.sock"]
        for name in names:
            (self.directory / "local" / name).touch()
        self.worker("w").stop()
        self.assertEqual(sorted(os.listdir(self.directory / "local")), names)


if __name__ == "__main__":
    unittest.main(verbosity=2)
