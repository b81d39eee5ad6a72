# SPDX-License-Identifier: Apache-2.0
"""The cases of scripts/test-vllm. Each is a function that gets servers and raises AssertionError; its docstring is its line."""
import contextlib
import copy
import http.client
import json
import os
import random
import re
import signal
import subprocess
import threading
import time
import urllib.request

import proxy
from servers import PREFILL_PARAMS, START_S, Refused, free_port, in_thread, prompt_of

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

LENGTHS = (100, 1000, 4000, 8000)
TTL_S = 8  # of the offers of the tests' prefills


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def same(got, expected, what):
    check(got == expected, f"{what}: {got!r}, and aggregated {expected!r}")


def handover(prefill, decode, tokens, **body):
    """Text of a prompt with the KV from prefill, and aggregated."""
    prompt = prompt_of(tokens)
    salt = {"cache_salt": str(random.random())}
    got = decode.text(prompt, kv_transfer_params=prefill.prefill(prompt, **salt), **salt, **body)
    return got, decode.text(prompt, cache_salt=str(random.random()), **body)


# ---- a pair ----

def equal_text(prefill, decode):
    """the text is that of the aggregated run, for 100, 1,000, 4,000 and 8,000 tokens, and the KV came from the prefill"""
    for tokens in LENGTHS:
        before = decode.from_prefill()
        got, expected = handover(prefill, decode, tokens)
        same(got, expected, f"{tokens} tokens")
        moved = decode.from_prefill() - before
        check(moved >= tokens - 1, f"of {tokens} tokens only {moved} came from the prefill")


def equal_to_own_cache(prefill, decode):
    """the text is that of the same request once more, from the decode's own prefix cache, for 1,025 and 4,097 tokens"""
    for tokens in (1025, 4097):  # whole blocks and the token that is always computed: both compute the same one
        prompt, salt = prompt_of(tokens), {"cache_salt": str(random.random())}
        first = decode.text(prompt, **salt)
        cached = decode.text(prompt, **salt)
        theirs = {"cache_salt": str(random.random())}
        got = decode.text(prompt, kv_transfer_params=prefill.prefill(prompt, **theirs), **theirs)
        check(got == cached, f"{tokens} tokens: {got!r}, from the own cache {cached!r}, aggregated {first!r}")


def continued_text(prefill, decode):
    """what the decode makes of a text that it had begun itself, with the KV from the prefill, is what it made before

    vLLM's kernel of MLA for the next token of a text, on CPUs, does not agree with the one for a prompt: without any
    connector, 5 of 33 tokens that it generated were those that a prompt of the same tokens gives. So the decode computes
    the last token of the prompt by the kernel for texts here, too.
    """
    for tokens in LENGTHS:
        prompt, salt = prompt_of(tokens), {"cache_salt": str(random.random())}
        text = decode.generated(prompt, cache_salt=str(random.random()))
        begun = prompt + text[:1]
        got = decode.generated(begun, len(text) - 1, kv_transfer_params=prefill.prefill(begun, **salt), **salt)
        same(got, text[1:], f"{tokens} tokens")


def own_cache_first(prefill, decode):
    """what the decode has in its own cache stays there: a longer prompt with a cached beginning gives the right text"""
    start = prompt_of(1000)
    decode.text(start)
    prompt = start + prompt_of(1000)
    before = decode.from_prefill()
    got = decode.text(prompt, kv_transfer_params=prefill.prefill(prompt))
    moved = decode.from_prefill() - before
    check(900 < moved < 1200, f"{moved} tokens came from the prefill, of which about 1,000 were missing")
    same(got, decode.text(prompt, cache_salt="x"), "a cached beginning")
    same(decode.text(start), decode.text(start, cache_salt="y"), "the beginning afterwards")


def through_a_proxy(prefill, decode):
    """a proxy that sends a request to the prefill and then to the decode, with and without streaming"""
    server = proxy.serve("127.0.0.1", 0, f"http://127.0.0.1:{prefill.port}", f"http://127.0.0.1:{decode.port}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        prompt = prompt_of(500)
        expected = decode.text(prompt, cache_salt="z")
        for stream in (False, True):
            before = decode.from_prefill()
            body = {"model": "m", "temperature": 0, "ignore_eos": True, "prompt": prompt, "max_tokens": 12,
                    "stream": stream, "cache_salt": str(random.random())}
            request = urllib.request.Request(f"http://127.0.0.1:{server.server_address[1]}/v1/completions",
                                             json.dumps(body).encode(), {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=120) as answer:
                text = answer.read().decode()
            if stream:
                events = [json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: {")]
                got = "".join(event["choices"][0]["text"] for event in events if event["choices"])
            else:
                got = json.loads(text)["choices"][0]["text"]
            same(got, expected, f"stream={stream}")
            check(decode.from_prefill() - before >= 499, "the KV did not come from the prefill")
    finally:
        server.shutdown()
        server.server_close()


def parameters_used_twice(prefill, decode):
    """parameters used twice: the second decode computes the prompt itself, and the text is right"""
    prompt = prompt_of(700)
    params = prefill.prefill(prompt)
    expected = decode.text(prompt, cache_salt="x")
    for salt in ("a", "b", "c"):
        prefill.prefill(prompt_of(900))  # others use the blocks meanwhile
        same(decode.text(prompt, kv_transfer_params=params, cache_salt=salt), expected, f"use {salt}")


def used_at_once(prefill, decode):
    """a proxy that retries: the same parameters in six requests at once, and then a second prefill of the prompt"""
    prompt = prompt_of(3000)
    expected = decode.text(prompt, cache_salt="x")
    params = prefill.prefill(prompt)
    threads = [in_thread(decode.text, prompt, kv_transfer_params=params, cache_salt=str(i)) for i in range(6)]
    for thread in threads:
        thread.join()
        same(thread.value, expected, "at once")
    same(decode.text(prompt, kv_transfer_params=prefill.prefill(prompt), cache_salt="y"), expected, "the retry")


def another_prompt(prefill, decode):
    """parameters of another prompt, as long or shorter, are refused with a sentence; the text is right"""
    for theirs, ours in ((600, 600), (600, 900), (900, 600)):
        prompt = prompt_of(ours)
        params = prefill.prefill(prompt_of(theirs))
        same(decode.text(prompt, kv_transfer_params=params), decode.text(prompt, cache_salt="x"), f"{theirs} for {ours}")
    check("are refused: they are of another prompt" in decode.log(), "no sentence in the log")


def beginning_of_a_prompt(prefill, decode):
    """parameters of the beginning of a prompt give its KV, and the rest is computed"""
    start = prompt_of(777)
    prompt = start + prompt_of(300)
    before = decode.from_prefill()
    got = decode.text(prompt, kv_transfer_params=prefill.prefill(start), cache_salt="p")
    check(decode.from_prefill() - before == 777, "the beginning did not come from the prefill")
    same(got, decode.text(prompt, cache_salt="x"), "the beginning")


def _forgeries(params):
    """Name and edited copy. Each must be refused, or fail, without harm."""
    ferry = params["ferry"]
    metadata = json.loads(ferry["ranks"][0][0])

    def edited(**changes):
        forged = copy.deepcopy(params)
        forged["ferry"].update(changes)
        return forged

    def with_metadata(text):
        return edited(ranks=[[text]])

    yield "ferry is a number", dict(params, ferry=7)
    yield "ferry is a list", dict(params, ferry=[])
    yield "no ferry", dict(params, ferry=None)
    for field in ferry:
        for value in (None, -1, 1e300, True, "x" * 10000, [], {}, [[]], [[1]], [["x"]], {"a": {"b": {"c": []}}}):
            yield f"{field} = {str(value)[:20]}", edited(**{field: value})
    yield "a million ranks", edited(ranks=[[ferry["ranks"][0][0]]] * 1000)
    yield "a URL on loopback", with_metadata("http://127.0.0.1:22/v1/operations/op_x/metadata")
    yield "the URL of a cloud's metadata", with_metadata("http://169.254.169.254/latest/meta-data/")
    yield "a file", with_metadata("file:///etc/passwd")
    yield "deep JSON", with_metadata("[" * 4000)
    for name, value in (("descriptors", []), ("descriptors", [{"device": "cpu", "ptr": 1, "size": 1}]),
                        ("notification_key", "A" * 43), ("nixl_metadata", "b64:AAAA"), ("nixl_metadata", ""),
                        ("operation_kind", 2), ("operation_kind", "1")):
        yield f"{name} of the metadata", with_metadata(json.dumps(dict(metadata, **{name: value})))
    yield "more tokens", edited(tokens=ferry["tokens"] + 16)
    yield "fewer tokens", edited(tokens=ferry["tokens"] - 16)
    yield "two ranks", edited(ranks=ferry["ranks"] * 2)
    yield "two parts", edited(ranks=[ferry["ranks"][0] * 2])


def forged(prefill, decode):
    """parameters edited by a client are refused: the text is right, and both servers live"""
    prompt = prompt_of(300)
    expected = decode.text(prompt, cache_salt="x")
    for number in range(len(list(_forgeries(prefill.prefill(prompt))))):
        name, forgery = list(_forgeries(prefill.prefill(prompt)))[number]  # of an offer that is valid still
        try:
            same(decode.text(prompt, kv_transfer_params=forgery, cache_salt=f"f{number}"), expected, name)
        except Refused as refused:
            check(400 <= refused.status < 500, f"{name}: {refused}")
    for wrong in ({"do_remote_prefill": "yes"}, {"do_remote_decode": [1]}, {"do_remote_prefill": {}, "ferry": []}):
        with contextlib.suppress(Refused):
            decode.text(prompt, kv_transfer_params=wrong, cache_salt="w")
    same(decode.text(prompt, cache_salt="y"), expected, "afterwards")
    check(prefill.process.poll() is None and decode.process.poll() is None, "a server has ended")


def unread(prefill, decode):
    """offers that nobody reads end: all blocks of the prefill are back after ttl_ms, and the decode's text is right"""
    prompt = prompt_of(4000)
    params = prefill.prefill(prompt)
    took = prefill.blocks_free_within(TTL_S + 10)
    check(took is not None, f"blocks are still held after {TTL_S + 10} s")
    same(decode.text(prompt, kv_transfer_params=params, cache_salt="a"), decode.text(prompt, cache_salt="b"), "too late")


def out_of_blocks(prefill, decode):
    """more prompts at once than the decode has blocks for: every text is right"""
    prompts = [prompt_of(4000 + i) for i in range(10)]  # twice as many tokens as the cache has
    expected = [decode.text(prompt, tokens=4, cache_salt="x") for prompt in prompts]

    def one(prompt, salt):
        return decode.text(prompt, tokens=4, kv_transfer_params=prefill.prefill(prompt, cache_salt=salt), cache_salt=salt)
    threads = [in_thread(one, prompt, f"o{i}") for i, prompt in enumerate(prompts)]
    for thread, text in zip(threads, expected):
        thread.join()
        same(thread.value, text, "out of blocks")


def leave(server, after, **body):
    """A client that goes away after so many seconds."""
    connection = server.connect()
    connection.request("POST", "/v1/completions", json.dumps({"model": "m", "temperature": 0, "ignore_eos": True, **body}),
                       {"Content-Type": "application/json"})
    time.sleep(after)
    connection.sock.close()
    connection.close()


def clients_leave(prefill, decode):
    """clients that go away, from the prefill and from the decode: all blocks of both are back"""
    for after in (0.01, 0.1, 0.3):
        prompt = prompt_of(6000)
        leave(prefill, after, prompt=prompt, max_tokens=1, kv_transfer_params=PREFILL_PARAMS)
        params = prefill.prefill(prompt)
        leave(decode, after, prompt=prompt, max_tokens=200, kv_transfer_params=params, cache_salt=str(after))
    for server in (decode, prefill):
        check(server.blocks_free_within(30) is not None, f"{server.name} still holds blocks after 30 s")


def metrics(prefill, decode):
    """reads, bytes, unread offers and failures are in /metrics and in vLLM's log"""
    prompt = prompt_of(1000)
    prefill.prefill(prompt_of(100))
    decode.text(prompt, kv_transfer_params=prefill.prefill(prompt), cache_salt="m")
    prefill.blocks_free_within(TTL_S + 10)
    for server, names in ((decode, ("read_seconds_count", "read_bytes_sum", "failed_reads_total")),
                          (prefill, ("offer_seconds_count", "unread_offers_total"))):
        found = server.metrics()
        for name in names:
            check(found.get(f"vllm:ferry_{name}", 0) > 0, f"vllm:ferry_{name} of {server.name} is missing or 0")


PAIR = (equal_text, own_cache_first, through_a_proxy, parameters_used_twice, used_at_once, another_prompt,
        beginning_of_a_prompt, forged, unread, out_of_blocks, clients_leave, metrics)


# ---- one or two servers that end ----

def other_weights(prefill, decode):
    """KV comes from the prefill indeed: one with other weights changes the text"""
    got, expected = handover(prefill, decode, 1000)
    check(got != expected, "the text is that of the decode's own weights")


def other_model(prefill, decode):
    """parameters of another model are refused with a sentence; the text is right"""
    got, expected = handover(prefill, decode, 300)
    same(got, expected, "another model")
    check("are refused: the number of" in decode.log(), "no sentence in the log")


def policy_fail(prefill, decode):
    """kv_load_failure_policy fail: a request whose KV cannot be read ends with an error, and the next one is served"""
    prompt = prompt_of(300)
    params = prefill.prefill(prompt)
    expected = decode.text(prompt, kv_transfer_params=params)
    try:
        check(not decode.text(prompt, kv_transfer_params=params, cache_salt="a"), "the second use was answered with a text")
    except Refused as refused:
        check(refused.status >= 500, str(refused))
    same(decode.text(prompt, kv_transfer_params=prefill.prefill(prompt), cache_salt="b"), expected, "afterwards")


def stopped_prefill(prefill, decode):
    """a prefill stopped in mid-read with the client gone: the decode's blocks are back, and it serves others"""
    expected = []
    prompts = [prompt_of(6000) for _ in range(3)]
    for prompt in prompts:
        expected.append(decode.text(prompt, tokens=4, cache_salt="x"))
    for after in (0.0, 0.02, 0.2):
        for number, prompt in enumerate(prompts):
            params = prefill.prefill(prompt, cache_salt=f"{after}")
            with prefill.stopped():
                if number == 2:
                    reader = in_thread(decode.text, prompt, tokens=4, kv_transfer_params=params, cache_salt=f"r{after}")
                else:
                    leave(decode, after, prompt=prompt, max_tokens=4, kv_transfer_params=params, cache_salt=f"s{after}")
                    reader = None
                same(decode.text(prompts[0], tokens=4, cache_salt=f"t{after}{number}"), expected[0], "another request")
                took = decode.blocks_free_within(60) if reader is None else 0
                check(took is not None, "the decode still holds blocks after 60 s")
            if reader:
                reader.join()
                same(reader.value, expected[number], "the reader")


def dead_prefill(prefill, decode):
    """parameters of a prefill that was killed, and of one that was restarted since: the text is right"""
    prompt = prompt_of(900)
    expected = decode.text(prompt, cache_salt="x")
    params = [prefill.prefill(prompt, cache_salt=str(i)) for i in range(2)]
    prefill.kill()
    same(decode.text(prompt, kv_transfer_params=params[0], cache_salt="a"), expected, "dead")
    prefill.begin()
    prefill.ready()
    same(decode.text(prompt, kv_transfer_params=params[1], cache_salt="b"), expected, "restarted")
    same(decode.text(prompt, kv_transfer_params=prefill.prefill(prompt), cache_salt="c"), expected, "new parameters")


def dead_decode(prefill, decode):
    """a decode killed in mid-read: the prefill's blocks are back, and a new decode is served"""
    prompt = prompt_of(8000)
    params = prefill.prefill(prompt)
    reader = in_thread(decode.text, prompt, kv_transfer_params=params)
    time.sleep(0.05)
    decode.kill()
    reader.join()
    check(prefill.blocks_free_within(30) is not None, "the prefill still holds blocks after 30 s")
    decode.begin()
    decode.ready()
    got, expected = handover(prefill, decode, 500)
    same(got, expected, "the new decode")


def storm(prefill, decode, requests=200, seed=None):
    """200 requests, eight at a time, with random kills, stops and clients that leave: no wrong text, all blocks back in 30 s"""
    rng = random.Random(seed if seed is not None else time.time_ns())
    prompts = [prompt_of(rng.choice((50, 400, 1500, 5000)), i) for i in range(12)]
    expected = [decode.text(prompt, tokens=6, cache_salt="x") for prompt in prompts]
    todo = iter(range(requests))
    lock, wrong, counts = threading.Lock(), [], {"right": 0, "failed": 0, "left": 0}
    over, up = threading.Event(), threading.Event()
    up.set()

    def count(what):
        with lock:
            counts[what] += 1

    def client(which):
        mine = random.Random(which)
        while True:
            up.wait()  # those under way meet the death of the prefill
            with lock:
                number = next(todo, None)
            if number is None:
                return
            index = mine.randrange(len(prompts))
            salt = f"{number}"
            try:
                params = prefill.prefill(prompts[index], cache_salt=salt, timeout=120)
                if mine.random() < 0.15:
                    leave(decode, mine.random() * 0.2, prompt=prompts[index], max_tokens=6, kv_transfer_params=params,
                          cache_salt=salt)
                    count("left")
                    continue
                for _ in range(2 if mine.random() < 0.2 else 1):  # a retry with the same parameters
                    text = decode.text(prompts[index], tokens=6, kv_transfer_params=params, cache_salt=salt, timeout=120)
                    if text != expected[index]:
                        wrong.append((number, text, expected[index]))
                count("right")
            except (OSError, Refused, http.client.HTTPException, ValueError, KeyError):
                count("failed")  # the prefill is being killed: no answer is no wrong text

    def trouble():
        while not over.wait(rng.uniform(1, 4)):
            with prefill.stopped() if rng.random() < 0.5 else decode.stopped():
                over.wait(rng.uniform(0.05, 1))

    threads = [in_thread(client, rng.random()) for _ in range(8)]
    troublemaker = in_thread(trouble)
    killed = 0
    while any(thread.is_alive() for thread in threads):
        for thread in threads:
            thread.join(5)
        if killed < 2 and sum(counts.values()) > (killed + 1) * requests // 3:
            killed += 1
            up.clear()
            prefill.kill()
            prefill.begin()
            prefill.ready()
            up.set()
    over.set()
    troublemaker.join()
    check(not wrong, f"{len(wrong)} wrong texts, the first: {wrong[:1]}")
    check(counts["right"] > requests // 2, f"only {counts} of {requests}")
    for server in (decode, prefill):
        took = server.blocks_free_within(30)
        check(took is not None, f"{server.name} still holds blocks after 30 s")


def refused_tp(prefill, decode):
    """a decode with more ranks than the prefill refuses with a sentence; the text is right"""
    got, expected = handover(prefill, decode, 300)
    same(got, expected, "refused")
    check("are refused: the prefill has a tensor parallel size of" in decode.log(), "no sentence in the log")


# ---- the page ----

def page(bench):
    """the commands for one host in docs/vllm.md, as they are pasted: an answer, whose KV came from the prefill"""
    with open(os.path.join(ROOT, "docs", "vllm.md"), encoding="utf-8") as file:
        (commands,) = re.findall(r"^```sh\n(.*?)^```$", file.read(), re.M | re.S)
    for theirs, here in (("build/vllm/venv", bench.venv), ("/tmp/small-model", os.path.join(bench.folder, "page")),
                         *((f"{port}", f"{free_port()}") for port in (8000, 8100, 8200))):
        check(theirs in commands, f"the page has no {theirs}")
        commands = commands.replace(theirs, here)
    # A session of its own: its servers end with it, also when a command has failed.
    with subprocess.Popen(["bash", "-c", f"set -e\n{commands}\nwait"], cwd=ROOT, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                          env=dict(os.environ, FERRY_LOCAL=bench.local)) as shell:
        try:
            output, _ = shell.communicate(timeout=2 * START_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
    check(re.search(r'"text":"[^"]', output), f"no text: {output[-2000:]}")
    for name in ("vllm:ferry_read_bytes_sum", "vllm:prompt_tokens_by_source_total"):
        found = re.search(rf"^{name}{{.*}} ([0-9.e+]+)$", output, re.M)
        check(found and float(found[1]) > 0, f"{name} is missing or 0: {output[-2000:]}")
