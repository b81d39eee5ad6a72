# SPDX-License-Identifier: Apache-2.0
"""Time to the first token after a handover: the decode's own prefix cache, FerryConnector with both memories, NixlConnector."""
import random
import statistics
import time

from servers import prompt_of

LENGTHS = (1000, 4000)
IDLE_S = 10
MARK = 1.3  # times the own prefix cache, for the longest prompt in memory of Ferry
IDLE_MARK_S = 1  # of CPU in IDLE_S, or what a server without a connector takes here, if that is more …
IDLE_MORE = 1.1  # … times this
PAIRS = (
    ("FerryConnector, memory of Ferry", {}),  # the one that has marks
    ("NixlConnector", {"connector": "NixlConnector"}),
    ("FerryConnector, memory of vLLM", {"extra": {"ferry_memory": False}}),
    # Two hosts in small: each byte by UCX over TCP.
    ("FerryConnector, TCP", {"env": {"FERRY_LOCAL": "off", "FERRY_DATA_LISTEN": "127.0.0.1:0"}}),
)


def _read(decode):
    """Seconds that the reads of a FerryConnector have taken so far, and their number."""
    found = decode.metrics()
    return [found.get(f"vllm:ferry_read_seconds_{what}", 0) for what in ("sum", "count")]


def _rounds(prefill, decode, tokens, times):
    """Milliseconds of prefill, of the decode's first token with its KV, and of the same from its own cache; and the mean of
    the reads alone, of a FerryConnector."""
    took = []
    for i in range(times + 1):
        if i == 1:
            before = _read(decode)
        prompt, salt = prompt_of(tokens), str(random.random())
        start = time.perf_counter()
        params = prefill.prefill(prompt, cache_salt=salt)
        middle = time.perf_counter()
        decode.post(prompt=prompt, max_tokens=1, kv_transfer_params=params, cache_salt=salt)
        end = time.perf_counter()
        decode.post(prompt=prompt, max_tokens=1, cache_salt=salt)
        last = time.perf_counter()
        if i:  # the first one connects
            took.append((1e3 * (middle - start), 1e3 * (end - middle), 1e3 * (last - end)))
    seconds, reads = (after - first for after, first in zip(_read(decode), before))
    return [*zip(*took), 1e3 * seconds / reads if reads else None]


def _mark(good, what):
    print(f"{'PASS' if good else 'FAIL'} bench: {what}", flush=True)
    return good


def _idle(*servers):
    """Seconds of CPU that each takes in IDLE_S."""
    before = [server.cpu_seconds() for server in servers]
    time.sleep(IDLE_S)
    return [server.cpu_seconds() - first for server, first in zip(servers, before)]


def run(bench, model, times):
    """Prints a table as Markdown has it; whether no mark was missed. One pair at a time: an idle NIXL agent takes a core."""
    rows, good = [], True
    alone = bench.start("bench-alone", model, connector=None).ready()
    alone.post(prompt=prompt_of(LENGTHS[0]), max_tokens=1)
    (own_idle,) = _idle(alone)
    alone.stop()
    print(f"without a connector: CPU in {IDLE_S} idle seconds: {own_idle:.1f} s", flush=True)
    for name, options in PAIRS:
        prefill = bench.start(f"bench-{len(rows)}-prefill", model, **options)
        decode = bench.start(f"bench-{len(rows)}-decode", model, **options)
        prefill.ready()
        decode.ready()
        cells = [name]
        for tokens in LENGTHS:
            prefills, handovers, own, read = _rounds(prefill, decode, tokens, times)
            cells.append(f"{statistics.median(handovers):.0f} ({min(handovers):.0f})")
            print(f"{name}, {tokens} tokens: prefill {statistics.median(prefills):.0f} ms, first token after the handover "
                  f"{statistics.median(handovers):.1f} ms (best {min(handovers):.1f}"
                  f"{'' if read is None else f'; of these the read {read:.1f} on average'}), from its own prefix cache "
                  f"{statistics.median(own):.1f} ms (best {min(own):.1f})", flush=True)
            cells.append(f"{statistics.median(own):.0f} ({min(own):.0f})")
        prefill.blocks_free_within(60)
        idle = _idle(prefill, decode)
        print(f"{name}: CPU in {IDLE_S} idle seconds: prefill {idle[0]:.1f} s, decode {idle[1]:.1f} s", flush=True)
        if not rows:
            ratio = statistics.median(handovers) / statistics.median(own)
            good = _mark(ratio <= MARK, f"the first token after a handover of {tokens:,} tokens takes {ratio:.2f} times as long "
                         f"as from the own prefix cache, of {MARK} that it may")
            good = _mark(max(idle) <= max(IDLE_MARK_S, IDLE_MORE * own_idle), f"an idle server takes at most "
                         f"{max(idle):.2f} s of CPU in {IDLE_S}, of {IDLE_MARK_S} that it may; {own_idle:.2f} without a "
                         "connector") and good
        rows.append([*cells, f"{idle[0]:.1f} / {idle[1]:.1f}"])
        prefill.stop()
        decode.stop()
    head = ["over"]
    for tokens in LENGTHS:
        head += [f"{tokens:,} tokens: handover, ms", "own cache, ms"]
    head.append(f"CPU s in {IDLE_S} idle s")
    print("\n| " + " | ".join(head) + " |\n|" + " --- |" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    return good
