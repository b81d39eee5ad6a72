#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
NIXL (the wheel `nixl`) between two processes on this host: MAX_SIZE. Reads a size a line and answers with the seconds
from making the transfer to both ends knowing of its end: what an operation of Ferry is. Its first line is "ready", or
"missing" where the wheel is not installed or does not start.
"""
import ctypes
import os
import socket
import sys
import time

# What NIXL and its libraries print is not an answer.
answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)
os.environ.setdefault("NIXL_LOG_LEVEL", "ERROR")
os.environ["UCX_POSIX_ERROR_HANDLING"] = "y"  # without it UCX offers NIXL no shared memory
os.environ.setdefault("UCX_LOG_LEVEL", "error")

ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
child = os.fork()
is_target = child == 0
peer = theirs if is_target else ours
(ours if is_target else theirs).close()

try:
    from nixl._api import nixl_agent, nixl_agent_config
    # Its progress thread would take a whole processor between the runs as well; both ends poll during one.
    config = nixl_agent_config(enable_prog_thread=False, backends=["UCX"])
    agent = nixl_agent("target" if is_target else "initiator", config)
except Exception as error:  # an import fails in many ways
    if not is_target:
        print("missing", file=answers)
        if not isinstance(error, ModuleNotFoundError):
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        os.waitpid(child, 0)
    os._exit(0)

size_max = int(sys.argv[1])
memory = bytearray(b"\x5a" * size_max if is_target else size_max)
address = ctypes.addressof((ctypes.c_char * size_max).from_buffer(memory))
registered = agent.register_memory([(address, size_max, 0, "")], mem_type="DRAM")


def send(data):
    peer.sendall(len(data).to_bytes(8, "little") + data)


def take(n):
    data = b""
    while len(data) < n:
        part = peer.recv(n - len(data))
        if not part:
            os._exit(0)
        data += part
    return data


def receive():
    return take(int.from_bytes(take(8), "little"))


def slices(size):
    return agent.get_xfer_descs([(address, size, 0)], mem_type="DRAM")


def serve():
    """Offers its memory, and says of each transfer that it was seen."""
    send(agent.get_agent_metadata())
    while True:
        send(agent.get_serialized_descs(slices(int.from_bytes(receive(), "little"))))
        while not agent.get_new_notifs():
            pass
        send(b"seen")


def read(size, remote):
    send(size.to_bytes(8, "little"))
    descriptors = agent.deserialize_descs(receive())
    begin = time.perf_counter()
    transfer = agent.initialize_xfer("READ", slices(size), descriptors, remote, b"done")
    state = agent.transfer(transfer)
    while state == "PROC":
        state = agent.check_xfer_state(transfer)
    if state != "DONE":
        sys.exit(f"the transfer ended as {state}")
    receive()
    seconds = time.perf_counter() - begin
    agent.release_xfer_handle(transfer)
    if memory[0] != 0x5A or memory[size - 1] != 0x5A:
        sys.exit("not the bytes that were offered")
    return seconds


if is_target:
    serve()
remote = agent.add_remote_agent(receive())
print("ready", file=answers)
for line in sys.stdin:
    print(f"{read(int(line), remote):.9f}", file=answers)
peer.close()
os.waitpid(child, 0)
os._exit(0)
