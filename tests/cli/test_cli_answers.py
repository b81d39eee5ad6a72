#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server that answers as no worker would: ferry tells so, whatever JSON came."""
import json
import signal
import threading
import unittest

from workers import Case, http_answer

WORKER = {"name": "w", "epoch": "00000000000000aa", "version": "0.1.0"}
ODD = ({}, "x", 1, None, [None], [1], [[]], [{}])  # in place of a list


class Answers(Case):
    def test_members_that_are_no_lists(self):
        for odd in ODD:
            answer = {**WORKER, "transports": ["tcp"], "memory": odd, "rdma": odd, "gpu_direct_rdma": {"missing": odd},
                      "addresses": {"http": odd}, "peers": [{"worker": odd, "unused": odd, "addresses": {"http": odd}}]}
            with self.answering(answer) as url:
                for command in ("devices", "peers", "workers"):
                    self.ferry(command, "-u", url)
                if odd is None or isinstance(odd, list):
                    self.ferry("doctor", "-u", url)
                else:
                    self.complains("a field is missing or wrong: /http", "doctor", "-u", url, status=3)
                self.complains("no worker none is in the registry", "fetch", "ferry://none/op_1", "-u", url, status=1)

    def test_lists_within_lists_that_are_none(self):
        for odd in ODD:
            answer = {**WORKER, "transports": odd if isinstance(odd, list) else [odd], "memory": [{"name": odd}],
                      "rdma": [{"name": odd, "ports": odd}], "gpu_direct_rdma": {"missing": [odd, "a:"]},
                      "addresses": {"http": [odd]}}
            with self.answering(answer) as url:
                self.ferry("devices", "-u", url)
                doctor = self.start("doctor", "-u", url)
                self.assertIn("Worker w", doctor.communicate(timeout=60)[0].decode())
                self.assertIn(doctor.returncode, (0, 1))

    def test_doctor_names_two_builds_that_cannot_talk_and_connects_nothing(self):
        own = 8
        worker = {**WORKER, "protocol": own, "transports": ["tcp"], "addresses": {"http": []}}
        for other, older in ((own - 1, "the peer"), (own + 1, "this worker"), (None, "the peer")):
            peer = {**worker, "name": "p", "protocol": other}
            if other is None:
                del peer["protocol"]
            with self.answering(worker) as url, self.answering(peer) as peer_url:
                findings = json.loads(self.ferry("doctor", peer_url, "--json", "-u", url, status=1)[0])
            bad = [one["finding"] for one in findings if one["level"] == "bad"]
            self.assertEqual(len(bad), 1, findings)
            self.assertIn(f"upgrade {older}, which is older", bad[0])

    def scripted(self, status, arguments, *answers):
        """What ferry prints, complains of and asks for, of a server with these answers."""
        with self.answering(*answers) as url:
            output, errors = self.ferry(*arguments.split(), "-u", url, status=status)
        return output.decode(), errors, [request for request, _, _ in url.asked]

    def test_an_answer_is_printed_as_it_came_but_for_json(self):
        told = self.scripted(0, "get v1/worker", http_answer(b'{ "a" : 1 }'))
        self.assertEqual(told, ('{ "a" : 1 }', "", ["GET /v1/worker"]))
        self.assertEqual(self.scripted(0, "get / --json", {"a": [1, {"b/c": "d"}]})[0],
                         '{\n  "a": [\n    1,\n    {\n      "b/c": "d"\n    }\n  ]\n}\n')
        self.assertEqual(self.scripted(0, "get / --json", http_answer(b"x"))[0], "x\n")
        output, _, asked = self.scripted(0, "connect http://peer:1", {"worker": "w", "epoch": "00ff", "transport": "tcp",
                                                                      "connect_us": 1250, "reused": False, "raw": 1})
        self.assertEqual((list(json.loads(output))[-1], asked), ("raw", ["POST /v1/peers"]))

    def test_a_problem_and_what_is_none(self):
        problem = http_answer({"code": "not-found", "title": "T", "detail": "no such region"}, 404)
        self.assertEqual(self.scripted(1, "get /x", problem)[:2], ("", "ferry: 404 not-found: no such region\n"))
        self.assertEqual(self.scripted(1, "get -j /x", problem)[:2],
                         ("", '{"error":{"code":"not-found","message":"404 not-found: no such region"}}\n'))
        self.assertIn("not the answer of a worker", self.scripted(3, "get /", b"HTTP/1.1 400 No\r\n\r\n<html>")[1])
        for command in ("ls", "regions", "peers"):
            self.assertIn("is not what a worker answers",
                          self.scripted(3, command, {"operations": 5, "regions": {}, "peers": None})[1])

    def test_a_body_comes_from_anywhere(self):
        (self.directory / "body").write_text('{"c":3}')
        with self.answering({}) as url:
            for body in ('{"a":1}', "-", f"@{self.directory}/body"):
                self.ferry("post", "/v1/regions", body, "-u", url, data=b'{"b":2}')
            self.ferry("post", "/v1/operations/op_1/cancel", "-u", url)
        self.assertEqual([(headers.get("content-type"), body) for _, headers, body in url.asked],
                         [("application/json", b'{"a":1}'), ("application/json", b'{"b":2}'), ("application/json", b'{"c":3}'),
                          (None, b"")])

    def test_a_wait_tells_how_it_ended(self):
        def operation(status, done=True, **more):
            return {"id": "op_1", "kind": "read", "status": status, "done": done, "revision": 2, "bytes_total": 8, "bytes_done": 4,
                    **more}

        runs = operation("IN_PROGRESS", False)
        output, errors, _ = self.scripted(0, "wait op_1 --timeout 20s", runs, operation("COMPLETE"), operation("COMPLETE", raw=1))
        self.assertTrue(output.endswith('"raw":1}\n'))
        self.assertEqual(errors, "")  # no progress: it is no terminal
        output, errors, _ = self.scripted(1, "wait op_1", operation("ERRORED", error={"code": "peer-lost", "detail": "it died"}))
        self.assertIn('"status":"ERRORED"', output)
        self.assertEqual(errors, "ferry: op_1 did not complete: peer-lost: it died (does the other worker still run?)\n")
        output, errors, _ = self.scripted(4, "wait --timeout 0ms op_1", runs)
        self.assertEqual((output, "op_1 is not done yet" in errors), ("", True))
        page = {"operations": [operation("COMPLETE"), {"id": "op_2", "problem": {"code": "gone", "status": 410, "detail": "deleted"}}]}
        output, errors, asked = self.scripted(1, "wait op_1 op_2", page)
        self.assertRegex(output, r'\A{"id":"op_1".*}\n{"id":"op_2","problem":{"code":"gone"')
        self.assertEqual((errors, asked), ("ferry: op_2: deleted\n", ["GET /v1/operations?ids=op_1,op_2&wait_ms=30000",
                                                                      "GET /v1/operations?ids=op_1,op_2"]))

    def test_a_list_of_operations(self):
        """Names the peer, or its epoch; what is left out the worker leaves out."""
        page = {"operations": [{"id": "op_1", "kind": "readable", "peer": {"worker": "reader-1", "epoch": "00ff"}},
                               {"id": "op_2", "kind": "readable", "peer": {"epoch": "00fe"}}, {"id": "op_3"}]}
        output, _, _ = self.scripted(0, "ls", page)
        self.assertEqual([text in output for text in ("PEER", "reader-1", "00fe", "00ff")], [True, True, True, False])
        with self.answering({"operations": []}) as url:
            self.ferry("ls", "--label", "a b&c", "--running", "--newest", "-u", url)
        self.assertEqual(url.asked[0][0], "GET /v1/operations?limit=1000&label=a%20b%26c&done=false&order=newest")

    def test_pages_that_lead_in_a_circle(self):
        answer = {**WORKER, "next": "1", "operations": [{}], "regions": [{}], "peers": [{}], "events": [{}]}
        with self.answering(answer) as url:
            for command in ("ls", "regions", "peers", "workers", "top"):
                self.complains("is not what a worker answers", command, "-u", url, status=3)
            _, errors = self.ferry("events", "-u", url, status=3)
            self.assertIn("is not what a worker answers", errors)

    def test_missed_events_are_told(self):
        with self.answering({"events": [], "missed": 3, "restarted": True}) as url:
            _, errors = self.ferry("events", "-u", url)
        self.assertIn("ferry: 3 events were missed\n", errors)
        self.assertIn("ferry: the worker was started anew\n", errors)

    def test_why_a_peer_is_not_connected_better(self):
        answer = {"peers": [{"worker": "a", "error": {"code": "peer-lost", "detail": "its process ended"}},
                            {"worker": "b", "unused": [{"transport": "shm", "reason": "off"},
                                                       {"transport": "rdma", "reason": "no device"}]}]}
        with self.answering(answer) as url:
            told = self.ferry("peers", "-u", url)[0].decode().splitlines()
        self.assertRegex(told[1], "^a .*its process ended$")
        self.assertRegex(told[2], "^b .*no shm: off; no rdma: no device$")

    def test_top_shows_the_transport_of_what_moves(self):
        """Which the operation itself tells at its end."""
        operation = {"id": "op_1", "kind": "read", "status": "IN_PROGRESS", "bytes_total": 400, "bytes_done": 300}
        answer = {**WORKER, "events": [], "operations": [{**operation, "peer": {"worker": "b", "epoch": "2"}}],
                  "peers": [{"worker": "a", "epoch": "1", "transport": "shm"}, {"worker": "b", "epoch": "2", "transport": "tcp"}]}
        with self.answering(answer) as url:
            told = self.ferry("top", "-u", url)[0].decode().splitlines()
            self.assertEqual(told[0], f"0 B/s, 1 operation, w at {url}")
            self.assertEqual(told[3].split(), ["op_1", "75%", "-", "400", "B", "IN_PROGRESS", "tcp", "read", "b", "-"])
            self.assertEqual(json.loads(self.ferry("top", "--json", "-u", url)[0])[0]["transport"], "tcp")
        answer["operations"][0]["expires_at"] = "2026-01-01T00:00:00Z"  # it rests between two uses
        with self.answering(answer) as url:
            self.assertNotIn("transport", json.loads(self.ferry("top", "--json", "-u", url)[0])[0])

    def test_ports_of_rdma_cards_are_listed(self):
        answer = {"transports": ["tcp"], "memory": [{"name": "cpu"}],
                  "rdma": [{"name": "mlx5_0", "ports": [{"number": 1, "state": "ACTIVE"}, {"number": 2, "state": "DOWN"}]}],
                  "gpu_direct_rdma": {"possible": False, "missing": []}}
        with self.answering(answer) as url:
            told = self.ferry("devices", "-u", url)[0].decode()
            self.assertRegex(told, r"(?m)^mlx5_0:1 +.*ACTIVE")
            self.assertRegex(told, r"(?m)^mlx5_0:2 +.*DOWN")
            self.assertEqual(json.loads(self.ferry("devices", "--json", "-u", url)[0]), answer)

    def test_events_that_were_interrupted_are_not_all(self):
        """A list that lacks its end is no success."""
        asked, ended = threading.Event(), threading.Event()

        def answer(_, path):
            if "after" in path:
                asked.set()
                ended.wait(60)
            return {"events": [{"type": "a"}], "next": "1"}

        with self.answering(answer) as url:
            process = self.start("events", "-u", url)
            self.assertTrue(asked.wait(60))
            process.send_signal(signal.SIGINT)
            process.wait(60)
            ended.set()
            self.finish(process, status=-signal.SIGINT)

    def test_nothing_that_controls_the_terminal(self):
        odd = "a\x1b[31m\x9b31m\u202eb\u2066"
        answer = {**WORKER, "name": odd, "transports": [odd], "addresses": {"data": odd, "http": [odd]}, "operations": [],
                  "gpu_direct_rdma": {"missing": [f"no GPU: {odd}"]}, "events": [], "peers": [{"worker": odd}]}
        events = {"events": [{"type": odd, "time": odd}]}
        for answer, commands in ((answer, ("devices", "doctor", "top", "peers", "workers")), (events, ("events",))):
            with self.answering(answer) as url:
                for command in commands:
                    output, _ = self.ferry(command, "-u", url)
                    self.assertIn(b"a?[31m?31m?b?", output, command)
                    self.assertNotRegex(output, b"\x1b|\xc2\x9b|\xe2\x80\xae", command)

    def test_json_controls_no_terminal_either(self):
        """And is what it was."""
        odd = "a\x1b[31m\x7f\x9b31m\u202eb\u2066 \u05e9\u05dc \u65e5"
        answer = {**WORKER, "name": odd, "transports": [odd], "events": [odd], "peers": [odd], "id": odd, "operations": [odd]}
        for command in (("devices", "-j"), ("peers", "-j"), ("events", "-j"), ("show",), ("show", "rgn_1"), ("ls", "-j"),
                        ("get", "/", "-j"), ("post", "/", "{}", "-j")):
            with self.answering(answer) as url:
                output = self.ferry(*command, "-u", url)[0].decode()
            self.assertNotRegex(output, "[\x1b\x7f\x9b\u202e\u2066]", command)
            self.assertIn(json.dumps(odd), json.dumps(json.loads(output)), command)
            self.assertIn("\u05e9\u05dc \u65e5", output, command)


if __name__ == "__main__":
    unittest.main(verbosity=2)
