# SPDX-License-Identifier: Apache-2.0
"""The HTTP of ferry.Client: kept connections that have ended, gateways in front of a worker, URLs where nobody answers."""
import contextlib
import http.client
import http.server
import os
import pickle
import socket
import ssl
import struct
import threading
import unittest
from unittest import mock

import ferry
import support

TLS = os.path.join(support.HERE, "..", "api", "tls")
ALL_OF_THEM = ("GET", "POST", "a short PUT", "a long PUT", "DELETE")


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self):
        self.now, self.pauses = 1000.0, []

    def monotonic(self):
        return self.now

    time = monotonic

    def sleep(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds
        self.slept()

    def slept(self):
        """What happens meanwhile."""


class Gateway:
    """An HTTP proxy in front of a worker that answers requests itself as a test says: an HTTP status, None to end the
    connection without an answer, RESET to do so by a reset."""

    RESET = -1

    def __init__(self, url, listens=True):
        self.own, self.asked = [], []  # answers for the next requests; targets of all
        self.seconds = {}  # that an answer of a status takes, on the clock
        self.headers, self.body = {}, (b"<html>upstream</html>", "text/html")
        self.clock = Clock()
        gateway = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                gateway.asked.append(self.path)
                status = gateway.own.pop(0) if gateway.own else 0
                if status in (None, gateway.RESET):
                    self.close_connection = True
                    if status == gateway.RESET:
                        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        os.close(self.connection.detach())
                    return
                headers = {}
                if status:
                    content, kind = gateway.body
                    headers = gateway.headers
                    gateway.clock.now += gateway.seconds.get(status, 0)
                else:
                    worker = http.client.HTTPConnection(url.split("//")[1])
                    sent = {name: value for name, value in self.headers.items() if name != "Host"}
                    worker.request(self.command, self.path, body, sent)
                    answer = worker.getresponse()
                    status, content, kind = answer.status, answer.read(), answer.headers.get("Content-Type", "")
                    worker.close()
                self.send_response(status)
                for name, value in {"Content-Type": kind, "Content-Length": len(content), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_DELETE = answer

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler, False)
        self.server.daemon_threads = True
        self.server.server_bind()  # until it listens, connections are refused
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        if listens:
            self.listen()

    def listen(self):
        self.server.server_activate()
        self.thread.start()

    def close(self):
        if self.thread.ident:
            self.server.shutdown()
            self.thread.join()
        self.server.server_close()

    def waits(self):
        return [int(one.rsplit("wait_ms=", 1)[1]) for one in self.asked if "wait_ms" in one]


class TestKeptConnections(unittest.TestCase):
    def restarted(self, tls, stop):
        """A client whose kept connections have ended, and a region of the worker that was started in place of the first."""
        flags = ("--tls-cert", os.path.join(TLS, "server.pem"), "--tls-key", os.path.join(TLS, "server-key.pem"))
        flags, context = (flags, ssl.create_default_context(cafile=os.path.join(TLS, "ca.pem"))) if tls else ((), None)
        first = support.Daemon(*flags)
        client, other = ferry.Client(first.url, tls=context), ferry.Client(first.url, tls=context)
        self.addCleanup(client.close)
        self.addCleanup(other.close)
        client.worker()
        stop(first)
        first.close()
        second = support.Daemon(*flags, listen=first.url.split("//")[1])
        self.addCleanup(second.close)
        region = other.region(8 << 20)
        region.client = client
        return client, region

    def test_those_that_a_restart_has_ended_are_replaced(self):
        for tls in (False, True):
            for stop in (lambda daemon: daemon.process.terminate(), lambda daemon: daemon.process.kill()):
                for what in ALL_OF_THEM:
                    with self.subTest(what, tls=tls):
                        client, region = self.restarted(tls, stop)
                        {"GET": client.worker, "POST": lambda client=client: client.region(10),
                         "a short PUT": lambda region=region: region.write(b"x" * 10),
                         "a long PUT": lambda region=region: region.write(b"x" * region.size),
                         "DELETE": region.delete}[what]()

    def test_one_that_has_ended_takes_the_others_with_it(self):
        daemon = support.Daemon()
        self.addCleanup(daemon.close)
        client = ferry.Client(daemon.url)
        self.addCleanup(client.close)
        kept = [client._http._connect(30) for _ in range(3)]
        for connection in kept:
            client._http._keep(connection)
        kept[2].sock.shutdown(socket.SHUT_RDWR)
        client.worker()
        ((now, _),) = client._http.idle
        self.assertNotIn(now, kept)

    def test_the_death_of_a_host_is_noticed_during_a_wait(self):
        daemon = support.Daemon()
        self.addCleanup(daemon.close)
        with ferry.Client(daemon.url) as client:
            client.worker()
            ((connection, _),) = client._http.idle
            self.assertTrue(connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE))
            self.assertLessEqual(connection.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE), 15)

    def test_few_are_kept_and_not_for_long(self):
        daemon, clock = support.Daemon(), Clock()
        self.addCleanup(daemon.close)
        with ferry.Client(daemon.url) as client, mock.patch("ferry._http.time", clock):
            for _ in range(40):
                client._http._keep(client._http._connect(30))
            self.assertEqual(len(client._http.idle), 16)
            before = [connection for connection, _ in client._http.idle]
            clock.now += 31
            client.worker()
            ((now, _),) = client._http.idle
            self.assertNotIn(now, before)


class TestGateways(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = support.Daemon()
        cls.client = ferry.Client(cls.daemon.url)
        cls.region = cls.client.region(100)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.daemon.close()

    def setUp(self):
        self.gateway = Gateway(self.daemon.url)
        self.addCleanup(self.gateway.close)
        self.through = ferry.Client(self.gateway.url)
        self.addCleanup(self.through.close)
        for name in ("ferry._http.time", "ferry.client.time"):
            patched = mock.patch(name, self.gateway.clock)
            patched.start()
            self.addCleanup(patched.stop)
        self.pauses = self.gateway.clock.pauses
        self.offer = self.client.offer(self.region)
        self.addCleanup(self.offer.delete)

    def ended(self):
        """The same offer through the gateway, which has ended meanwhile."""
        found = self.through.find_operation(self.offer.id)
        self.offer.cancel()
        self.gateway.asked.clear()
        return found

    def test_a_wait_goes_on(self):
        for answers in ([502], [503], [504], [502, 503, 504] * 2, [502] * 7):
            found = self.ended()
            self.gateway.own = answers[:]
            with self.assertRaises(ferry.OperationFailed):
                found.wait(timeout=30)
            self.assertEqual(len(self.gateway.asked), len(answers) + 1)
            self.offer = self.client.offer(self.region)
        self.assertEqual(self.pauses[-7:], [0.1, 0.2, 0.4, 0.8, 1.6, 2, 2])

    def test_a_wait_goes_on_where_connections_are_reset(self):
        waiting, self.gateway.own = self.moved(self.offer, self.through), [Gateway.RESET] * 3
        self.offer.cancel()
        with self.assertRaises(ferry.OperationFailed):
            waiting.wait(timeout=30)
        self.assertEqual((len(self.gateway.asked), self.pauses), (4, [0.1, 0.2, 0.4]))

    def refusing(self, times):
        """A client of a gateway that listens after so many pauses only."""
        gateway = Gateway(self.daemon.url, listens=False)
        self.addCleanup(gateway.close)
        client = ferry.Client(gateway.url)
        self.addCleanup(client.close)

        def slept():
            if len(self.pauses) == times:
                gateway.listen()

        self.gateway.clock.slept = slept
        return gateway, client

    def moved(self, operation, client):
        """The same operation, asked for by another client."""
        return ferry.client.Operation(client, dict(operation.body))

    def test_a_wait_goes_on_where_connections_are_refused(self):
        for timeout in (30, None):
            gateway, client = self.refusing(7)
            waiting = self.moved(self.offer, client)
            self.offer.cancel()
            with self.assertRaises(ferry.OperationFailed):
                waiting.wait(timeout)
            self.assertEqual(self.pauses, [0.1, 0.2, 0.4, 0.8, 1.6, 2, 2])
            self.assertGreater(gateway.waits()[0], 12_500)  # they say nothing of how long a gateway waits
            self.pauses.clear()
            self.offer = self.client.offer(self.region)

    def test_a_wait_for_a_worker_that_is_gone_ends(self):
        for timeout, seconds in ((5, 5), (None, 60)):
            _, client = self.refusing(1000)
            start = self.gateway.clock.now
            with self.assertRaisesRegex(TimeoutError, "refuses connections"):
                self.moved(self.offer, client).wait(timeout)
            self.assertTrue(seconds - 3 <= self.gateway.clock.now - start <= seconds)

    def test_a_call_bears_a_refused_connection(self):
        _, client = self.refusing(4)
        region = client.region(10)
        self.assertEqual(self.pauses, [0.1, 0.2, 0.4, 0.8])
        region.delete()
        _, client = self.refusing(1000)
        for timeout, pauses in ((30, 4), (0.6, 2), (0.05, 0)):
            self.pauses.clear()
            with self.assertRaises(ConnectionRefusedError):
                client.request("GET", "/v1/worker", timeout=timeout)
            self.assertEqual(len(self.pauses), pauses)

    def test_a_pause_is_as_long_as_the_gateway_asks_for(self):
        for text, seconds in (("7", 7), ("Thu, 01 Jan 1970 00:16:50 GMT", 10)):
            self.gateway.own, self.gateway.headers = [503], {"Retry-After": text}
            self.gateway.clock.now = 1000.0
            self.through.worker()
            self.assertEqual(self.pauses.pop(), seconds)

    def test_waits_get_shorter_after_a_gateways_time_limit(self):
        found = self.ended()
        self.gateway.own, self.gateway.seconds = [504, 504, None, None, 502], {504: 15}
        with self.assertRaises(ferry.OperationFailed):
            found.wait()
        # The first that ended without an answer was on a kept connection.
        self.assertEqual(self.gateway.waits(), [50_000, 25_000, 12_500, 12_500, 6250, 6250])
        self.gateway.own, self.gateway.seconds = [504] * 6, {}
        self.assertTrue(found.refresh(8000).done)
        self.assertEqual(self.gateway.waits()[6:], [8000, 4000, 2000, 1000, 1000, 1000, 1000])

    def test_a_wait_ends_when_its_caller_says(self):
        found = self.through.find_operation(self.offer.id)
        for status, told in ((502, "answers 502"), (504, "answers 504"), (None, "ends connections")):
            self.gateway.own, start = [status] * 100, self.gateway.clock.now
            with self.assertRaises(TimeoutError) as raised:
                found.wait(timeout=5)
            self.assertLessEqual(self.gateway.clock.now - start, 5)
            self.assertIsInstance(raised.exception, ferry.FerryError)
            self.assertIn(f"{self.gateway.url} {told}", str(raised.exception))

    def test_a_wait_without_end_goes_on_for_a_minute(self):
        found = self.through.find_operation(self.offer.id)
        self.gateway.own, start = [503] * 1000, self.gateway.clock.now
        with self.assertRaisesRegex(ferry.Unreachable, "answers 503: a gateway does not reach the worker"):
            found.wait()
        self.assertTrue(57 <= self.gateway.clock.now - start <= 60)

    def test_events_go_on(self):
        events = self.through.events(follow=True)
        while next(events).get("operation", {}).get("id") != self.offer.id:
            pass
        self.gateway.own = [504, 502, None]
        self.offer.cancel()
        self.assertEqual(next(events)["type"], "operation.ended")
        self.assertEqual(self.gateway.own, [])

    def test_calls_go_on_and_act_once(self):
        before = {one.id for one in self.client.regions()}
        self.gateway.own = [503, 502]
        region = self.through.region(10)
        self.assertEqual({one.id for one in self.client.regions()} - before, {region.id})
        self.gateway.own = [504]
        region.write(b"0123456789")
        self.gateway.own = [504]
        self.assertEqual(region.read(2, 3), b"234")
        region.delete()
        self.gateway.own = [504]  # as if the first had been carried out
        region.delete()

    def test_calls_end_with_their_timeout(self):
        self.gateway.own, start = [502] * 100, self.gateway.clock.now
        with self.assertRaises(ferry.Unreachable) as raised:
            self.through.request("GET", "/v1/worker", timeout=3)
        self.assertLessEqual(self.gateway.clock.now - start, 3)
        self.assertEqual(raised.exception.status, 502)

    def test_an_answer_of_the_worker_ends_it(self):
        """Which has a problem document with a code; a gateway's JSON has none."""
        self.gateway.body, self.gateway.own = (b'{"message":"no upstream"}', "application/json"), [503]
        self.through.worker()
        self.gateway.body = (b'{"code":"draining","detail":"d"}', "application/problem+json")
        self.gateway.own, self.pauses[:] = [503], []
        with self.assertRaises(ferry.FerryError) as raised:
            self.through.worker()
        self.assertEqual((raised.exception.code, self.pauses), ("draining", []))

    def test_a_wait_goes_on_where_the_worker_is_busy(self):
        self.gateway.body = (b'{"code":"draining","detail":"It drains"}', "application/problem+json")
        found = self.ended()
        self.gateway.own = [503, 429]
        with self.assertRaises(ferry.OperationFailed):
            found.wait()
        self.offer = self.client.offer(self.region)
        found = self.through.find_operation(self.offer.id)
        self.gateway.own = [503] * 100
        with self.assertRaisesRegex(TimeoutError, "answers 503: It drains"):
            found.wait(timeout=5)

    def test_a_body_that_a_gateway_does_not_take(self):
        region = self.through.find_region(self.region.id)
        self.gateway.own = [413]
        with self.assertRaisesRegex(ferry.FerryError, "a gateway at .* takes no body of that size") as raised:
            region.write(b"x" * 100)
        self.assertEqual((raised.exception.code, self.pauses), ("too-large", []))


class TestAnswers(unittest.TestCase):
    def server(self, act):
        """The URL of a server that gives its first connection to act."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def serve():
            with contextlib.suppress(OSError), listener.accept()[0] as connection:
                act(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        self.addCleanup(thread.join, 30)
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    def test_an_answer_before_the_body_was_sent(self):
        def refuse(connection):
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 413 Large\r\nContent-Length: 0\r\n\r\n")

        client = ferry.Client(self.server(refuse))
        with self.assertRaisesRegex(ferry.FerryError, "takes no body of that size"):
            client.request("PUT", "/v1/regions/r/content", bytes(64 << 20))
        self.assertEqual(client._http.idle, [])

    def test_errors_of_the_network_are_of_one_family(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{unused.getsockname()[1]}"
            self.unreachable(url, ConnectionRefusedError, True)
        self.unreachable(self.server(lambda connection: connection.recv(4096)), ConnectionResetError, True)
        self.unreachable(self.server(lambda connection: connection.recv(4096) and connection.recv(1)), TimeoutError, True,
                         timeout=0.05)
        self.unreachable(f"unix:{os.environ['FERRY_LOCAL']}/nobody", FileNotFoundError, False)
        with mock.patch("socket.getaddrinfo", side_effect=socket.gaierror(-2, "Name or service not known")):
            self.unreachable("http://nobody.example:9300", socket.gaierror, False)
        daemon = support.Daemon("--tls-cert", os.path.join(TLS, "server.pem"), "--tls-key",
                                os.path.join(TLS, "server-key.pem"))
        self.addCleanup(daemon.close)
        self.unreachable(daemon.url, ssl.SSLCertVerificationError, False)

    def test_what_is_no_worker_is_told_as_such(self):
        for answer, kind in ((b"SSH-2.0\r\n", ConnectionError), (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", ConnectionError),
                             (b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n{", ferry.FerryError)):
            url = self.server(lambda connection, answer=answer: connection.recv(4096) and connection.sendall(answer))
            with self.assertRaisesRegex(kind, url):
                ferry.Client(url).worker()

    def unreachable(self, url, kind, retryable, timeout=30.0):
        with self.subTest(kind.__name__), ferry.Client(url, timeout=timeout) as client:
            with self.assertRaises(kind) as raised:
                client.worker()
            error = raised.exception
            self.assertIsInstance(error, ferry.Unreachable)
            self.assertIsInstance(error, ferry.FerryError)
            self.assertIsInstance(error, OSError)
            self.assertIn(f"does a worker answer at {url}?", str(error))
            self.assertEqual((error.code, error.retryable), ("unreachable", retryable))
            copy = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(copy), str(copy), copy.errno), (type(error), str(error), error.errno))

    def test_errors_go_to_other_processes(self):
        for error in (ferry.FerryError("gone", "It went", 410, True), ferry.OperationFailed("cancelled", "d", "CANCELLED")):
            copy = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(copy), str(copy), vars(copy)), (type(error), str(error), vars(error)))


if __name__ == "__main__":
    support.main()
