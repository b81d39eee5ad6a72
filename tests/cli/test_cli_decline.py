#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ferry decline and ferry renew: what the holder of an offer's metadata says to its worker."""
import json
import unittest

from workers import Case


class Decline(Case):
    def setUp(self):
        super().setUp()
        self.a = self.worker("a")

    def offer(self, **fields):
        """An offer by REST: its id and the file of its metadata."""
        operation = self.a.offer(self.region(self.a, 1000), **fields)
        path = self.directory / (operation["id"] + ".json")
        path.write_text(json.dumps(operation["metadata"]))
        return operation["id"], path

    def state(self, identifier):
        return self.a.get("/v1/operations/" + identifier)

    def test_by_a_file_standard_input_or_the_url(self):
        """None of them needs a worker of one's own."""
        for how in ("file", "-", "url"):
            identifier, path = self.offer()
            argument = {"file": path, "-": "-", "url": f"{self.a.url}/v1/operations/{identifier}/metadata"}[how]
            output, errors = self.ferry("decline", argument, "-u", "http://127.0.0.1:1", data=path.read_bytes())
            self.assertEqual((output, errors), (b"CANCELLED\n", ""))
            self.assertEqual(self.state(identifier)["error"]["code"], "declined")
            output, _ = self.ferry("decline", path, "--json")
            self.assertEqual(json.loads(output), {"status": "CANCELLED"})

    def test_by_the_id_alone(self):
        """Of an offer of the worker that --url names."""
        identifier, _ = self.offer(renew_max_ms=3600000)
        self.assertRegex(self.ferry("renew", identifier, "-u", self.a.url)[0], rb"\A20\d\d-.*Z\n\Z")
        self.assertEqual(self.ferry("decline", identifier, "-u", self.a.url)[0], b"CANCELLED\n")
        self.complains("is a worker running at http://127.0.0.1:1?", "decline", identifier, "-u", "http://127.0.0.1:1", status=3)

    def test_a_file_that_is_offered(self):
        offer = self.start("offer", self.file("source", 5000), "--renew-max", "1h", "--url", self.a.url)
        url = self.line(offer)
        output, _ = self.ferry("renew", url, "--ttl", "30m", "-u", self.a.url)
        self.assertRegex(output, rb"\A20\d\d-.*Z\n\Z")
        self.ferry("decline", url, "-u", self.a.url)
        _, errors = self.finish(offer, status=1)
        self.assertIn("declined", errors)
        self.nothing_left(self.a)

    def test_more_time(self):
        identifier, path = self.offer(ttl_ms=60000, renew_max_ms=600000)
        output, _ = self.ferry("renew", path, "--ttl", "5m", "--json")
        self.assertEqual(json.loads(output)["expires_at"], self.state(identifier)["expires_at"])
        _, path = self.offer()
        self.complains("renew_max_ms", "renew", path, status=1)

    def test_by_way_of_a_worker(self):
        """The owner serves HTTP on a Unix socket alone, which metadata do not name."""
        owner = self.worker("owner", listen=(f"unix:{self.directory}/owner.sock",))
        body = {"kind": "readable", "descriptors": [{"region": self.region(owner, 1000)}]}
        output, _ = self.ferry("post", "/v1/operations?include=metadata", json.dumps(body), "-u", owner.url)
        operation = json.loads(output)
        metadata = json.dumps(operation["metadata"]).encode()
        self.assertEqual(self.ferry("decline", "-", "-u", self.a.url, data=metadata), (b"CANCELLED\n", ""))
        output, _ = self.ferry("show", operation["id"], "-u", owner.url)
        self.assertIn(b"declined", output)

    def test_what_is_no_metadata(self):
        self.complains("No such file", "decline", self.directory / "nothing", status=2)
        self.complains("not the metadata of an offer", "decline", "-", status=2, data=b"{}")
        self.complains("not the metadata of an offer", "renew", "-", status=2, data=b"")
        _, path = self.offer()
        other = dict(json.loads(path.read_text()), notification_key="A" * 43)
        self.complains("notification_key", "decline", "-", status=1, data=json.dumps(other).encode())


if __name__ == "__main__":
    unittest.main()
