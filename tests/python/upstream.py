# SPDX-License-Identifier: Apache-2.0
"""Upstream's embedding sender or receiver, unchanged, on ferry.nixl_connect: `upstream.py sender|receiver`.

The sender prints a request a line, which the receiver reads; both print the checksum of what they moved.
"""
import asyncio
import sys

import ferry.nixl_connect

sys.modules["dynamo.nixl_connect"] = ferry.nixl_connect
SHAPES = ((3, 5), (100, 64), (1, 1), (64, 512))  # the last fills what the receiver has registered


def main(role):
    import torch
    from dynamo.common.multimodal import embedding_transfer as upstream

    async def send():
        sender = upstream.NixlReadEmbeddingSender()
        for i, shape in enumerate(SHAPES):
            embeddings = torch.arange(shape[0] * shape[1], dtype=torch.float16).reshape(shape) % 1000 + i
            request, sent = await sender.send_embeddings(embeddings, stage_embeddings=bool(i % 2))
            print(request.model_dump_json(), flush=True)
            await sent
            print(float(embeddings.sum(dtype=torch.float64)), flush=True)

    async def receive():
        receiver = await asyncio.to_thread(upstream.NixlReadEmbeddingReceiver, 1024, 64, 2)
        for shape in SHAPES:
            request = upstream.TransferRequest.model_validate_json(sys.stdin.readline())
            number, embeddings = await receiver.receive_embeddings(request)
            assert tuple(embeddings.shape) == shape
            print(float(embeddings.sum(dtype=torch.float64)), flush=True)
            receiver.release_tensor(number)

    asyncio.run(send() if role == "sender" else receive())


if __name__ == "__main__":
    main(sys.argv[1])
