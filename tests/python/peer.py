# SPDX-License-Identifier: Apache-2.0
"""The other process of the tests: a program of nixl_connect that does what its standard input says."""
import asyncio
import json
import os
import signal
import sys
import threading

from ferry import nixl_connect as connect


def memory(connector, call):
    """Memory and its descriptor: of the program, or all of a GPU's, which is the same until it is freed."""
    if "gpu" not in call:
        data = bytearray(bytes([call.get("fill", 0)]) * call["size"])
        return data, connect.Descriptor(data)
    if not gpu:
        from test_gpu import SIZE, Gpu
        made = Gpu(call["gpu"], call.get("fill", 0))
        gpu.extend((made, connect.Descriptor((made.pointer.value, SIZE, f"cuda:{call['gpu']}", made))))
        gpu[1].register_with_connector(connector)
    return gpu


async def passive(connector, call):
    """Offers; answers with the metadata, and then with how it ended."""
    data, descriptor = memory(connector, call)
    maker = connector.create_readable if call["do"] == "readable" else connector.create_writable
    with maker(descriptor) as operation:
        say(metadata=operation.metadata(call.get("hex", False)).model_dump())
        if not call.get("leave"):
            await finish(operation, data)
    if call.get("leave"):
        say(status=str(operation.status))


async def active(connector, call):
    data, descriptor = memory(connector, call)
    metadata = connect.RdmaMetadata(**call["metadata"])
    begin = connector.begin_read if call["do"] == "read" else connector.begin_write
    async with begin(metadata, descriptor) as operation:
        await finish(operation, data)


async def finish(operation, data):
    try:
        await operation.wait_for_completion()
        data = data if isinstance(data, bytearray) else data.bytes()
        say(status=str(operation.status), first=data[0], last=data[-1], same=data.count(data[0]) == len(data))
    except connect.OperationFailed as error:
        say(status=str(operation.status), code=error.code, detail=error.detail)


def say(**answer):
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


async def main():
    connector = connect.Connector()
    calls = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read():
        for line in sys.stdin:
            loop.call_soon_threadsafe(calls.put_nowait, json.loads(line))
        loop.call_soon_threadsafe(calls.put_nowait, None)

    threading.Thread(target=read, daemon=True).start()
    while call := await calls.get():
        if call["do"] == "exit":  # with an operation that runs
            operation = connector.create_readable(memory(connector, call)[1])
            say(metadata=operation.metadata().model_dump())
            keep.append(operation)
            return
        if call["do"] == "free":
            gpu[0].free()
            say(freed=True)
            continue
        if call["do"] == "fork":  # a child that does nothing but live
            child = os.fork()
            if child == 0:
                while True:
                    signal.pause()
            say(child=child)
            continue
        task = asyncio.create_task((passive if call["do"] in ("readable", "writable") else active)(connector, call))
        running.add(task)
        task.add_done_callback(running.discard)


keep, running, gpu = [], set(), []
if __name__ == "__main__":
    asyncio.run(main())
