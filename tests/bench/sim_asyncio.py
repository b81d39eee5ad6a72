#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""As sim_inside, from asyncio with ferry.nixl_connect: FOLDER-OF-THE-MODULE LIBRARY."""
import asyncio
import os
import socket
import sys
import time

sys.path.insert(0, sys.argv[1])
os.environ["FERRY_WORKER_LIBRARY"] = sys.argv[2]
from ferry import nixl_connect as connect  # noqa: E402

SIZE = 4096


def start():
    connector = connect.Connector()
    descriptor = connect.Descriptor(connector.allocate(SIZE))
    descriptor.register_with_connector(connector)
    return connector, descriptor, asyncio.get_running_loop()


async def serve(peer):
    connector, descriptor, loop = start()
    await loop.sock_sendall(peer, b"ready")
    while text := await loop.sock_recv(peer, 4096):
        metadata = connect.RdmaMetadata.model_validate_json(text)
        await connector.begin_read(metadata, descriptor).wait_for_completion()
        await loop.sock_sendall(peer, b"seen")


async def offer(peer):
    connector, descriptor, loop = start()
    await loop.sock_recv(peer, 64)
    while sys.stdin.readline():
        begin = time.perf_counter()
        operation = connector.create_readable(descriptor)
        await loop.sock_sendall(peer, operation.metadata().model_dump_json().encode())
        await operation.wait_for_completion()
        await loop.sock_recv(peer, 64)
        print(f"{time.perf_counter() - begin:.9f}", flush=True)


ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
child = os.fork()
mine = theirs if child == 0 else ours
(ours if child == 0 else theirs).close()
mine.setblocking(False)
asyncio.run((serve if child == 0 else offer)(mine))
