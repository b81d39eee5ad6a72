# SPDX-License-Identifier: Apache-2.0
"""vLLM's servers, each in a session of its own, and requests to them."""
import contextlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

START_S = 600  # vLLM imports torch and compiles nothing here, but a busy machine takes minutes
PREFILL_PARAMS = {"do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None,
                  "remote_block_ids": None, "remote_host": None, "remote_port": None}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Refused(Exception):
    """A server answered with a status that is no success."""

    def __init__(self, status, text):
        super().__init__(f"HTTP {status}: {text[:300]}")
        self.status = status


class Bench:
    """The folder, the virtual environment and the living servers of a run."""

    def __init__(self, venv, folder):
        self.venv = venv
        self.python = os.path.join(venv, "bin", "python")
        self.folder = folder
        self.local = os.path.join(folder, "local")  # where the Ferry workers of this run find each other
        os.makedirs(self.local, mode=0o700, exist_ok=True)
        self.servers = []

    def model(self, name, *options):
        folder = os.path.join(self.folder, name)
        if not os.path.exists(folder):
            script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "model.py")
            subprocess.run([self.python, script, folder, *options], check=True, env=environment(),
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return folder

    def start(self, name, model, **options):
        server = Server(self, name, model, **options)
        self.servers.append(server)
        return server

    def close(self):
        for server in self.servers:
            server.kill()


def environment(**more):
    return dict(os.environ, VLLM_CPU_KVCACHE_SPACE="1", VLLM_CPU_OMP_THREADS_BIND="nobind", OMP_NUM_THREADS="1",
                HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1", VLLM_SERVER_DEV_MODE="1", PYTHONHASHSEED="0", **more)


class Server:
    def __init__(self, bench, name, model, tp=1, connector="FerryConnector", policy="recompute", role="kv_both",
                 extra=None, arguments=(), env=None):
        self.name = name
        self.port = free_port()
        self.log_path = os.path.join(bench.folder, f"{name}.log")
        command = [bench.python, "-m", "vllm.entrypoints.cli.main", "serve", model, "--served-model-name", "m",
                   "--host", "127.0.0.1", "--port", str(self.port), "--dtype", "float32", "--enforce-eager",
                   "--tensor-parallel-size", str(tp), "--max-model-len", "16384", "--max-num-batched-tokens", "8192",
                   "--disable-uvicorn-access-log", *arguments]
        if connector:
            command += ["--kv-transfer-config", json.dumps({
                "kv_connector": connector, "kv_role": role, "kv_load_failure_policy": policy,
                "kv_connector_extra_config": extra or {}})]
        self.command = command
        self.env = environment(**{"FERRY_LOCAL": bench.local, "VLLM_NIXL_SIDE_CHANNEL_PORT": str(free_port()), **(env or {})})
        self.begin()

    def begin(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env,
                                            start_new_session=True)

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def ready(self):
        """Waits until it answers; returns self."""
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended at its start:\n" + "\n".join(self.log().splitlines()[-15:]))
            with contextlib.suppress(OSError, http.client.HTTPException):
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5):
                    return self
            time.sleep(0.2)
        raise RuntimeError(f"{self.name} is not ready after {START_S} s")

    def signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def kill(self):
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            pass
        self.kill()

    @contextlib.contextmanager
    def stopped(self):
        self.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal(signal.SIGCONT)

    def connect(self, timeout=180):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def post(self, path="/v1/completions", timeout=180, **body):
        if path == "/v1/completions":
            body = {"model": "m", "temperature": 0, "ignore_eos": True, **body}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise Refused(error.code, error.read().decode(errors="replace")) from None
        return json.loads(text) if text else None

    def prefill(self, prompt, **body):
        """kv_transfer_params for a decode."""
        return self.post(prompt=prompt, max_tokens=1, kv_transfer_params=PREFILL_PARAMS, **body)["kv_transfer_params"]

    def text(self, prompt, tokens=12, **body):
        return self.post(prompt=prompt, max_tokens=tokens, **body)["choices"][0]["text"]

    def generated(self, prompt, tokens=12, **body):
        """Token ids."""
        return self.post(prompt=prompt, max_tokens=tokens, return_token_ids=True, **body)["choices"][0]["token_ids"]

    def metrics(self):
        """Sums over labels, and of the sources of prompt tokens each."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=60) as answer:
            found = {}
            for line in answer.read().decode().splitlines():
                if line.startswith("#"):
                    continue
                name, value = line.rsplit(" ", 1)
                plain = name.split("{")[0]
                if plain == "vllm:prompt_tokens_by_source_total":
                    plain += ":" + name.split('source="')[1].split('"')[0]
                found[plain] = found.get(plain, 0) + float(value)
            return found

    def from_prefill(self):
        """Prompt tokens whose KV came from another instance."""
        return self.metrics().get("vllm:prompt_tokens_by_source_total:external_kv_transfer", 0)

    def blocks_free_within(self, seconds):
        """Whether no block of the KV cache is in use, after at most so many seconds; how long it took, or None.

        vLLM resets its prefix cache only then.
        """
        start = time.monotonic()
        while True:
            if self.post("/reset_prefix_cache")["success"]:
                return time.monotonic() - start
            if time.monotonic() > start + seconds:
                return None
            time.sleep(0.2)

    def cpu_seconds(self):
        """Of the server and what it has started."""
        ticks = 0
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                    fields = file.read().rsplit(")", 1)[1].split()
                if int(fields[3]) == self.process.pid:  # the session
                    ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


def prompt_of(tokens, seed=None):
    rng = random.Random(seed)
    return [rng.randrange(256) for _ in range(tokens)]


def in_thread(function, *arguments, **named):
    """A thread that has begun; its .value is the result or the exception."""
    def run():
        try:
            thread.value = function(*arguments, **named)
        except Exception as error:  # pylint: disable=broad-except
            thread.value = error
    thread = threading.Thread(target=run, daemon=True)
    thread.value = None
    thread.start()
    return thread
