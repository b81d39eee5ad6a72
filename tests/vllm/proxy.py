#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sends each request to a prefill and then to a decode, as the proxies of vLLM do. Standard library only.

proxy.py [--port 8000] [--host 127.0.0.1] PREFILL DECODE      base URLs, as http://127.0.0.1:8100

The prefill computes the prompt and one token; kv_transfer_params of its answer go to the decode as they are. It is here to
try and to test; a router for production also balances, retries and limits.
"""
import argparse
import http.client
import http.server
import json
import urllib.error
import urllib.request


def post(base, path, body, headers):
    request = urllib.request.Request(base.rstrip("/") + path, json.dumps(body).encode(),
                                     {"Content-Type": "application/json", **headers})
    return urllib.request.urlopen(request, timeout=600)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):  # pylint: disable=invalid-name
        try:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            headers = {name: value for name, value in self.headers.items() if name.lower() == "authorization"}
            first = dict(body, max_tokens=1, stream=False, kv_transfer_params={
                "do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None, "remote_block_ids": None,
                "remote_host": None, "remote_port": None})
            for field in ("stream_options", "min_tokens", "max_completion_tokens"):
                first.pop(field, None)
            with post(self.server.prefill, self.path, first, headers) as answer:
                params = json.load(answer).get("kv_transfer_params")
            answer = post(self.server.decode, self.path, dict(body, kv_transfer_params=params), headers)
        except urllib.error.HTTPError as error:
            answer = error
        except (OSError, ValueError, TypeError, http.client.HTTPException) as error:
            self.send_error(502, str(error))
            return
        with answer:
            self.relay(answer)

    def relay(self, answer):
        """In chunks, as they come: a stream of tokens among them."""
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while data := answer.read1(65536):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format, *args):  # pylint: disable=redefined-builtin
        pass


def serve(host, port, prefill, decode):
    server = http.server.ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    server.prefill, server.decode = prefill, decode
    return server


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("prefill")
    parser.add_argument("decode")
    given = parser.parse_args()
    server = serve(given.host, given.port, given.prefill, given.decode)
    print(f"http://{given.host}:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
