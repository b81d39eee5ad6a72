# SPDX-License-Identifier: Apache-2.0
"""ferry.decline and ferry.renew: the holder of metadata has no worker of its own."""
import asyncio
import base64
import json
import unittest
import zlib

import ferry
import support

SIZE = 10_000


class TestOffer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = support.Daemon()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.close()

    def setUp(self):
        self.client = ferry.Client(self.daemon.url)
        self.addCleanup(self.client.close)
        self.region = self.client.region(SIZE)

    def fails(self, code, call, *arguments, **more):
        with self.assertRaises(ferry.FerryError) as caught:
            call(*arguments, **more)
        self.assertEqual(caught.exception.code, code)
        return caught.exception

    def refresh(self, offer):
        return self.client.find_operation(offer.id)

    def test_a_declined_offer_has_ended(self):
        offer = self.client.offer(self.region)
        for form in (offer.metadata, json.dumps(offer.metadata), json.dumps(offer.metadata).encode(), offer):
            self.assertEqual(ferry.decline(form), "CANCELLED")
        now = self.refresh(offer)
        self.assertEqual((now.status, now.body["error"]["code"]), ("CANCELLED", "declined"))
        target = self.client.region(SIZE)
        with self.assertRaises(ferry.OperationFailed) as failed:
            self.client.read(target, offer.metadata).wait(timeout=30)
        self.assertEqual((failed.exception.code, failed.exception.status_name), ("declined", "CANCELLED"))
        self.region.delete()

    def test_an_offer_that_was_read_stays_complete(self):
        offer, target = self.client.offer(self.region), self.client.region(SIZE)
        self.client.read(target, offer).wait(timeout=30)
        self.assertEqual(ferry.decline(offer), "COMPLETE")
        offer.delete()
        self.fails("gone", ferry.decline, offer.metadata)

    def test_one_of_several_uses(self):
        offer, target = self.client.offer(self.region, uses=2), self.client.region(SIZE)
        self.assertEqual(ferry.decline(offer), "INITIALIZED")
        self.client.read(target, offer).wait(timeout=30)
        self.assertEqual(offer.wait(timeout=30).body["uses_done"], 1)

    def test_in_asyncio(self):
        offer = self.client.offer(self.region)
        self.assertEqual(asyncio.run(asyncio.to_thread(ferry.decline, offer.metadata)), "CANCELLED")

    def test_an_offer_is_kept_as_long_as_its_owner_lets(self):
        offer = self.client.offer(self.region, ttl_ms=60_000, renew_max_ms=120_000)
        first = ferry.renew(offer.metadata, 1)
        second = ferry.renew(offer.metadata, 100_000)
        self.assertGreater(second, first)
        self.assertEqual(self.refresh(offer).body["expires_at"], second)
        self.assertGreaterEqual(ferry.renew(offer.metadata), second)
        self.assertIn("renew_max_ms", self.fails("forbidden", ferry.renew, self.client.offer(self.region)).detail)

    def test_through_a_worker(self):
        other = support.Daemon()
        self.addCleanup(other.close)
        with ferry.Client(other.url) as client:
            offer = self.client.offer(self.region, ttl_ms=60_000, renew_max_ms=120_000)
            self.assertEqual(client.renew(offer, 100_000)[:10], self.refresh(offer).body["expires_at"][:10])
            self.assertEqual(client.decline(offer.metadata), "CANCELLED")
            self.assertEqual(self.refresh(offer).body["error"]["code"], "declined")
            self.fails("forbidden", client.renew, self.client.offer(self.region).metadata)

    def test_what_is_no_metadata(self):
        good = self.client.offer(self.region).metadata
        for bad in ("", "x", "[]", "{}", b"\xff", 5, dict(good, nixl_metadata="b64:"), dict(good, nixl_metadata=5),
                    dict(good, nixl_metadata="b64:AAAA"), dict(good, notification_key=None),
                    dict(good, notification_key="a\r\nX: y"), dict(good, notification_key="\u00e9")):
            self.fails("invalid-metadata", ferry.decline, bad)
        self.fails("forbidden", ferry.decline, dict(good, notification_key="A" * 43))

    def changed(self, **fields):
        good = self.client.offer(self.region).metadata
        blob = json.loads(zlib.decompress(base64.b64decode(good["nixl_metadata"][4:])))
        blob.update(fields)
        return dict(good, nixl_metadata="b64:" + base64.b64encode(zlib.compress(json.dumps(blob).encode())).decode())

    def test_what_the_metadata_name(self):
        self.assertEqual(ferry.decline(self.changed()), "CANCELLED")
        self.assertIn("no HTTP", self.fails("peer-unreachable", ferry.decline, self.changed(http="")).detail)
        for fields in ({"operation": "../../x"}, {"operation": 5}, {"http": 5}, {"http": "file:///etc/passwd"},
                       {"http": "http://"}):
            self.fails("invalid-metadata", ferry.decline, self.changed(**fields))
        with self.assertRaises(ferry.Unreachable):
            ferry.decline(self.changed(http="http://127.0.0.1:1"), timeout=5)
        bomb = "b64:" + base64.b64encode(zlib.compress(b" " * (1 << 22))).decode()
        self.fails("invalid-metadata", ferry.decline, dict(self.changed(), nixl_metadata=bomb))


if __name__ == "__main__":
    unittest.main()
