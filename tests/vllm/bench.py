# SPDX-License-Identifier: Apache-2.0
"""Time to the first token after a handover: the decode's own prefix cache, FerryConnector with both memories, NixlConnector."""
import random
import statistics
import time

from servers import prompt_of

LENGTHS = (1000, 4000)
IDLE_S = 10
PAIRS = (
    ("FerryConnector, memory of Ferry", {}),
    ("NixlConnector", {"connector": "NixlConnector"}),
    ("FerryConnector, memory of vLLM", {"extra": {"ferry_memory": False}}),
    # Two hosts in small: each byte by UCX over TCP.
    ("FerryConnector, TCP", {"env": {"FERRY_LOCAL": "off", "FERRY_DATA_LISTEN": "127.0.0.1:0"}}),
)


def _rounds(prefill, decode, tokens, times):
    """Milliseconds of prefill, of the decode's first token with its KV, and of the same from its own cache."""
    took = []
    for i in range(times + 1):
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
    return list(zip(*took))


def run(bench, model, times):
    """Prints a table as Markdown has it. One pair at a time: an idle NIXL agent takes a core."""
    rows = []
    for name, options in PAIRS:
        prefill = bench.start(f"bench-{len(rows)}-prefill", model, **options)
        decode = bench.start(f"bench-{len(rows)}-decode", model, **options)
        prefill.ready()
        decode.ready()
        cells = [name]
        for tokens in LENGTHS:
            prefills, handovers, own = _rounds(prefill, decode, tokens, times)
            cells.append(f"{statistics.median(handovers):.0f} ({min(handovers):.0f})")
            print(f"{name}, {tokens} tokens: prefill {statistics.median(prefills):.0f} ms, first token after the handover "
                  f"{statistics.median(handovers):.1f} ms (best {min(handovers):.1f}), from its own prefix cache "
                  f"{statistics.median(own):.1f} ms (best {min(own):.1f})", flush=True)
            cells.append(f"{statistics.median(own):.0f} ({min(own):.0f})")
        prefill.blocks_free_within(60)
        before = prefill.cpu_seconds(), decode.cpu_seconds()
        time.sleep(IDLE_S)
        idle = [after - first for after, first in zip((prefill.cpu_seconds(), decode.cpu_seconds()), before)]
        print(f"{name}: CPU in {IDLE_S} idle seconds: prefill {idle[0]:.1f} s, decode {idle[1]:.1f} s", flush=True)
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
