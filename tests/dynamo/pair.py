#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A user of dynamo.nixl_connect in Dynamo's wheel, unchanged, between two processes on this host.

    pair.py embeddings|mm_kwargs|omni|encode_helper|media

One process sends tensors, the other receives them and compares; both take whatever dynamo.nixl_connect the path has. The
last line is JSON: the module, and for each size the medians of the time until the receiver has the tensor, and until the
sender knows. media only says how one transfer ended.
"""
from __future__ import annotations

import asyncio
import importlib.util
import json
import multiprocessing
import os
import pickle
import statistics
import sys
import time
import types
from multiprocessing.connection import Connection
from typing import Any, Awaitable, Callable

SIZES = {"4 KiB": (4 << 10, 100), "64 MiB": (64 << 20, 9)}  # bytes, and how often
LARGEST = max(size for size, _ in SIZES.values())
LIMIT = 60  # seconds for one transfer

Offer = Callable[[Any], Awaitable[tuple[str, Callable[[], Awaitable[None]]]]]  # of a tensor: text for the peer, and the end
Read = Callable[[str], Awaitable[tuple[Any, Callable[[], None]]]]  # of that text: the tensor, and what lets go of it


# ---- the parts of other wheels that Dynamo's files name ----

def stand_in(name: str, **values: Any) -> None:
    """A module of that name and those above it, unless they are there."""
    words = name.split(".")
    for i in range(1, len(words) + 1):
        module = ".".join(words[:i])
        if module not in sys.modules:
            sys.modules[module] = types.ModuleType(module)
    vars(sys.modules[name]).update(values)


def load(relative: str) -> types.ModuleType:
    """A file of Dynamo's, without the package around it, which would need the whole engine."""
    import dynamo
    path = next(file for file in (os.path.join(folder, relative) for folder in dynamo.__path__) if os.path.exists(file))
    spec = importlib.util.spec_from_file_location("user_of_nixl_connect", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class OmniConnectorBase:
    """What Dynamo's connector takes from vllm-omni's base class."""

    serialize_obj = staticmethod(pickle.dumps)
    deserialize_obj = staticmethod(pickle.loads)

    @staticmethod
    def _make_key(key: str, from_stage: str, to_stage: str) -> str:
        return f"{key}@{from_stage}_{to_stage}"


def omni_connector() -> Any:
    stand_in("vllm_omni.distributed.omni_connectors.connectors.base", OmniConnectorBase=OmniConnectorBase)
    return load("vllm/omni/connectors/nixl_connector.py").create_dynamoomni_nixl_connector({})


def encode_helper() -> Any:
    stand_in("dynamo.trtllm.multimodal_processor", resolve_mm_processor_kwargs=None)
    stand_in("dynamo.trtllm.utils.disagg_utils", DisaggregatedParamsCodec=None)
    return load("trtllm/encode_helper.py").EncodeHelper


# ---- senders ----

def send_embeddings() -> Offer:
    from dynamo.common.multimodal.embedding_transfer import NixlReadEmbeddingSender
    sender = NixlReadEmbeddingSender()

    async def offer(tensor: Any) -> Any:
        request, sent = await sender.send_embeddings(tensor, stage_embeddings=True)

        async def end() -> None:
            await sent
        return request.model_dump_json(), end
    return offer


def send_mm_kwargs() -> Offer:
    from dynamo.common.multimodal.mm_kwargs_transfer import MmKwargsNixlSender
    sender = MmKwargsNixlSender()

    async def offer(tensor: Any) -> Any:
        spec, operation = await sender._encode_item(0, tensor.numpy().tobytes())
        arguments = sender._assemble_extra_args("image", [spec], ["hash"])
        return json.dumps(arguments["mm_kwargs_nixl"]), lambda: sender.cleanup([operation])
    return offer


def send_omni() -> Offer:
    connector = omni_connector()

    async def offer(tensor: Any) -> Any:
        sent, _, metadata = await asyncio.to_thread(connector.put, "a", "b", "key", tensor)
        assert sent
        ended = connector._pending["key"][3]  # its task, in its own loop

        async def end() -> None:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asyncio.wait([ended]), connector._loop))
        return json.dumps(metadata), end
    return offer


def send_encode_helper() -> Offer:
    from dynamo import nixl_connect
    helper, connector = encode_helper(), nixl_connect.Connector()

    async def offer(tensor: Any) -> Any:
        class Processor:
            async def load_tensor_from_path_or_url(self, _: str) -> Any:
                return tensor
        flow = helper._process_embedding_path_flow(["path"], Processor(), connector)
        response = await anext(flow)

        async def end() -> None:
            assert await anext(flow, None) is None
        return json.dumps(response), end
    return offer


def send_media() -> Offer:
    """Dynamo's frontend has decoded an image: its agent of NIXL, in Rust, says the same as this one in Python."""
    import base64
    import zlib
    from nixl._api import nixl_agent
    agent = nixl_agent("frontend")

    async def offer(tensor: Any) -> Any:
        agent.register_memory(tensor)
        blob = base64.b64encode(zlib.compress(agent.get_agent_metadata())).decode()
        place = {"addr": tensor.data_ptr(), "size": tensor.numel(), "mem_type": "Dram", "device_id": 0}
        return json.dumps({"nixl_metadata": f"b64:{blob}", "nixl_descriptor": place, "shape": [tensor.numel() // 4, 4],
                           "dtype": "UINT8"}), lambda: asyncio.sleep(0)
    return offer


# ---- receivers ----

def keep() -> None:
    pass


async def receive_embeddings() -> Read:
    from dynamo.common.constants import EmbeddingTransferMode
    from dynamo.common.multimodal import EMBEDDING_RECEIVER_FACTORIES, TransferRequest
    make = EMBEDDING_RECEIVER_FACTORIES[EmbeddingTransferMode.NIXL_READ]
    receiver = await asyncio.to_thread(make)  # it runs a loop of its own meanwhile

    async def read(text: str) -> Any:
        number, tensor = await receiver.receive_embeddings(TransferRequest.model_validate_json(text))
        return tensor, lambda: receiver.release_tensor(number)
    return read


async def receive_mm_kwargs() -> Read:
    import torch
    from dynamo.common.multimodal.mm_kwargs_transfer import MmKwargsNixlReceiver, MmKwargsTransferMetadata
    receiver = await asyncio.to_thread(MmKwargsNixlReceiver, LARGEST, 2)

    async def read(text: str) -> Any:
        got = await receiver.receive(MmKwargsTransferMetadata.model_validate_json(text))
        return torch.frombuffer(got["__pickled_kwargs_item__"][0], dtype=torch.uint8), keep
    return read


async def receive_omni() -> Read:
    connector = omni_connector()

    async def read(text: str) -> Any:
        got = await asyncio.to_thread(connector.get, "a", "b", "key", json.loads(text))
        return got[0], keep
    return read


async def receive_encode_helper() -> Read:
    from dynamo import nixl_connect
    helper, connector = encode_helper(), nixl_connect.Connector()

    async def read(text: str) -> Any:
        return await helper.read_embeddings_from_encode_response(json.loads(text), connector), keep
    return read


async def receive_media() -> Read:
    import torch
    from dynamo import nixl_connect
    from dynamo.common.utils.media_nixl import read_decoded_media_via_nixl
    connector = nixl_connect.Connector()

    async def read(text: str) -> Any:
        return torch.from_numpy(await read_decoded_media_via_nixl(connector, json.loads(text))), keep
    return read


SENDERS = {"embeddings": send_embeddings, "mm_kwargs": send_mm_kwargs, "omni": send_omni,
           "encode_helper": send_encode_helper, "media": send_media}
RECEIVERS = {"embeddings": receive_embeddings, "mm_kwargs": receive_mm_kwargs, "omni": receive_omni,
             "encode_helper": receive_encode_helper, "media": receive_media}


# ---- the two processes ----

def tensor_of(size: int, seed: int) -> Any:
    """No eight bytes of it are others of it."""
    import torch
    return torch.arange(seed << 32, (seed << 32) + size // 8, dtype=torch.int64).view(torch.uint8)


async def send(user: str, pipe: Connection) -> None:
    offer = SENDERS[user]()

    async def hear() -> Any:
        return await asyncio.to_thread(pipe.recv)

    while (wish := await hear()) is not None:
        tensor = tensor_of(*wish)  # NIXL's agent does not keep it
        text, end = await offer(tensor)
        pipe.send(text)
        await hear()
        await asyncio.wait_for(end(), LIMIT)
        pipe.send(None)


def sender(user: str, pipe: Connection) -> None:
    try:
        asyncio.run(send(user, pipe))
    finally:
        sys.stderr.flush()
        os._exit(0)  # NIXL's agents may end the process by a signal


class Pair:
    """The receiver's side."""

    def __init__(self, pipe: Connection, read: Read) -> None:
        self.pipe, self.read = pipe, read

    def hear(self) -> Any:
        if not self.pipe.poll(LIMIT):
            raise TimeoutError("the sender says nothing")
        return self.pipe.recv()

    async def transfer(self, size: int, seed: int) -> tuple[float, float]:
        """Seconds until the tensor is here, and from then until the sender knows."""
        import torch
        self.pipe.send((size, seed))
        text = self.hear()
        began = time.perf_counter()
        tensor, release = await asyncio.wait_for(self.read(text), LIMIT)
        read = time.perf_counter() - began
        assert torch.equal(tensor.flatten(), tensor_of(size, seed)), "other bytes have come"
        release()
        began = time.perf_counter()
        self.pipe.send(None)
        self.hear()
        return read, time.perf_counter() - began


async def measure(user: str, pipe: Connection) -> dict[str, Any]:
    from dynamo import nixl_connect
    pair = Pair(pipe, await RECEIVERS[user]())
    result: dict[str, Any] = {"user": user, "module": nixl_connect.__name__}
    for name, (size, times) in SIZES.items():
        found = [await pair.transfer(size, i) for i in range(times + 1)][1:]  # the first connects
        result[name] = [round(1e3 * statistics.median(column), 3) for column in zip(*found)]
    return result


async def measure_media(pipe: Connection) -> dict[str, Any]:
    """No time: frames are read once. The alpha channel is dropped on the way."""
    import torch
    from dynamo import nixl_connect
    read = await receive_media()
    result = {"user": "media", "module": nixl_connect.__name__}
    pipe.send((4096, 1))
    if not pipe.poll(LIMIT):
        raise TimeoutError("the sender says nothing")
    try:
        tensor, _ = await read(pipe.recv())
        result["same"] = torch.equal(tensor, tensor_of(4096, 1).view(-1, 4)[:, :3])
    except Exception as error:
        result["error"] = str(error)
    pipe.send(None)
    return result


def main(user: str) -> None:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=sender, args=(user, there), daemon=True)
    process.start()
    there.close()
    result = asyncio.run(measure_media(here) if user == "media" else measure(user, here))
    here.send(None)
    process.join(LIMIT)
    print(json.dumps(result), flush=True)
    os._exit(0)


if __name__ == "__main__":
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    if len(sys.argv) != 2 or sys.argv[1] not in SENDERS:
        sys.exit(__doc__)
    main(sys.argv[1])
