#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Workers have names in a file, and what is secret between ferry and one of them is told no other one."""
import unittest

from workers import Case, environment, http_answer

REFUSED = http_answer({"code": "not-found", "detail": "no such region"}, 404)


class Names(Case):
    def token(self, name):
        path = self.directory / name
        path.write_text(f"{name}-token\n")
        return path

    def asks(self, status, *arguments, **variables):
        """Runs ferry; what it complains of."""
        process = self.start(*arguments, env={**environment(self.directory), **variables})
        return self.finish(process, status)[1]

    def tokens(self, url):
        return [headers.get("authorization", "").removeprefix("Bearer ") for _, headers, _ in url.asked]

    def test_a_name_stands_for_a_url_and_its_token(self):
        mine = self.token("mine")
        with self.answering({}) as url:
            self.names(f"# ours\nother http://127.0.0.1:1\nprefill  {url} token-file={self.token('near')} # near\n")
            self.asks(0, "@prefill", "get", "/a")
            self.asks(0, "get", "/a", "--url", "@prefill")
            self.asks(0, "@prefill", "get", "/a", FERRY_TOKEN_FILE=str(mine))  # which is of no worker in particular
            self.asks(0, "@prefill", "get", "/a", "--token-file", mine)
            self.asks(0, "get", "/a", FERRY_URL=url, FERRY_TOKEN_FILE=str(mine))
            self.assertIn("no worker decode in ", self.asks(2, "@decode", "get", "/a"))
        self.assertEqual(self.tokens(url), ["near-token"] * 3 + ["mine-token"] * 2)

    def test_each_worker_gets_its_own_token(self):
        peer = self.token("b")
        region = {"id": "rgn_1", "size": 8, "device": "host"}
        with self.answering(region) as a, self.answering(REFUSED) as b, self.answering(REFUSED) as c:
            self.names(f"a {a} token-file={self.token('a')}\nb {b}\nc {c} token-file={self.token('c')}\n")
            self.asks(1, "@a", "copy", "@a/rgn_1", "@b/rgn_2", "--peer-token-file", peer)
            self.asks(1, "@a", "copy", "@a/rgn_1", "@c/rgn_2", "--peer-token-file", peer)
            self.asks(1, "@a", "copy", "rgn_1", "@b/rgn_2", "--peer-token-file", peer, "--token-file", peer)
            self.asks(1, "-u", b, "copy", "@c/rgn_1", "x", FERRY_PEER_TOKEN_FILE=str(peer))
            self.asks(1, "-u", b, "copy", "rgn_1", "x", FERRY_PEER_TOKEN_FILE=str(peer))  # it is our own worker there
            self.asks(1, "-u", c, "copy", "@c/rgn_1", "x")
        self.assertEqual([self.tokens(url) for url in (a, b, c)],
                         [["a-token", "a-token", "b-token"], ["b-token", "b-token", ""], ["c-token"] * 3])

    def test_a_worker_that_is_its_own_peer_gets_the_token_for_peers(self):
        own, peer = self.token("own"), self.token("peer")
        with self.answering(REFUSED) as url:
            fetch = ("fetch", f"{url}/v1/operations/op_1/metadata", "--token-file", own, "-u", url)
            self.asks(1, *fetch, "--peer-token-file", peer)
            self.asks(1, *fetch)
            self.asks(1, *fetch, FERRY_PEER_TOKEN_FILE=str(peer))  # of some peer, not of this one in particular
        self.assertEqual(self.tokens(url), ["peer-token", "own-token", "own-token"])

    def test_each_worker_gets_its_own_certificate(self):
        """A file that is missing tells whose setting it is."""
        pem = self.file("pem", 0)
        with self.answering({"id": "rgn_1", "size": 8, "device": "host"}) as a:
            self.names(f"a {a} cert={pem} key=/nonexistent/a\nb http://127.0.0.1:1 ca-file=/nonexistent/b\n"
                       f"c http://127.0.0.1:1 cert={pem}\nd http://127.0.0.1:1 key=/nonexistent/d\n")
            # That of the line of another worker …
            self.asks(2, "-u", a, "copy", "rgn_1", "@b/rgn_2", "--ca-file", pem)
            self.asks(2, "-u", a, "copy", "rgn_1", "@d/rgn_2", "--cert", pem, "--key", pem)
            # … and neither half of a pair of another source.
            self.asks(3, "@a", "copy", "rgn_1", "@c/rgn_2", "--cert", pem)
            self.asks(3, "-u", "@c", "copy", "rgn_1", "x", FERRY_KEY="/nonexistent/key")
            self.asks(3, "-u", "http://127.0.0.1:1", "copy", "rgn_1", "x", "--cert", pem, FERRY_KEY="/nonexistent/key")


if __name__ == "__main__":
    unittest.main(verbosity=2)
