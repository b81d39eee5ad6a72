# SPDX-License-Identifier: Apache-2.0
"""What type checkers say of programs: scripts/check-style has mypy check this file, which nothing runs. A mistake that
mypy would not see leaves its "type: ignore" unused, which is an error."""
from __future__ import annotations

import ferry
from ferry import nixl_connect

client = ferry.Client("http://127.0.0.1:9300")
region: ferry.Region = client.region(1 << 20, "weights", device="cuda:0", idle_ms=60_000)
client.region(1, colour="red")  # type: ignore[call-arg]
client.region(1, idle_ms="60s")  # type: ignore[arg-type]

offer: ferry.Operation = client.offer(region, region.slice(0, 4096, count=2, stride=8192), unlimited=True, ttl_ms=1000,
                                      label=None)
client.offer(region, lable="x")  # type: ignore[call-arg]
client.offer(region, uses="many")  # type: ignore[arg-type]
client.offer(region, timeout_ms=1)  # type: ignore[call-arg]
region.slice(0, 1, blokcs=[1])  # type: ignore[call-arg]

read: ferry.Operation = client.read(region, offer, timeout_ms=1000, verify=True, transports=["shm", "rdma"], parts=[(0, 4096)])
client.read([region], offer.metadata, layout="stream", relay=True).wait(timeout=1)
client.read(region, offer, transports=["carrier-pigeon"])  # type: ignore[list-item]
client.write(region, offer, timeout=1)  # type: ignore[call-arg]
client.offer(region, follow=read)
for operation in client.operations(status="COMPLETE", kind="read", limit=10):
    operation.delete()
client.operations(status="DONE")  # type: ignore[arg-type]

worker = ferry.Worker(listen=["127.0.0.1:0"], data_listen="127.0.0.1:0")
passive = worker.create("readable", [b"bytes"], uses=2, follow=None)
worker.create("read", [bytearray(5)], remote=passive.metadata, parts=[(0, 5)], timeout_ms=1).wait(timeout=1)
worker.create("reedable", [b"bytes"])  # type: ignore[arg-type]
worker.create("readable", [b"bytes"], tll_ms=1)  # type: ignore[call-arg]

connector = nixl_connect.Connector()
descriptor = nixl_connect.Descriptor(bytearray(5))
metadata: nixl_connect.RdmaMetadata = connector.create_readable(descriptor).metadata()
begun: nixl_connect.ReadOperation = connector.begin_read(metadata, descriptor)
connector.begin_read([descriptor], metadata)
connector.begin_read(descriptor, descriptor)  # type: ignore[call-overload]
connector.begin_read(metadata, b"bytes")  # type: ignore[call-overload]
connector.begin_write(descriptor, metadata)
connector.begin_write(metadata, [descriptor])
connector.begin_write(descriptor, "metadata")  # type: ignore[call-overload]
