"""Tests requests that begin and never end: they use memory only for received bytes, and all together have a limit."""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
from tests.hostile.resident_memory import resident_bytes, wait_until, wait_until_received
from tests.interop.broker_process import BrokerProcess
from tests.support.wire import Wire

from klamm.protocol.errors import ErrorCode
from klamm.protocol.produce import ProduceRequest, ProduceTopic
from klamm.protocol.records import encode_batch
from klamm.protocol.schema.create_topics_request import CreatableTopic, CreateTopicsRequest
from klamm.protocol.schema.create_topics_response import CreateTopicsResponse
from klamm.protocol.schema.metadata_request import MetadataRequest
from klamm.protocol.schema.metadata_response import MetadataResponse

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory and sockets are looked up in /proc")

MEGABYTE = 1024 * 1024
CLAIMED_BYTES = 100 * 1000 * 1000
LIMIT_BYTES = 128 * MEGABYTE
"""The default of `queued.max.request.bytes`."""
SPARE_BYTES = 24 * MEGABYTE
"""Room for the pool of buffers, and for memory that Python and the allocator keep."""


@pytest.fixture
def connections() -> Iterator[list[socket.socket]]:
    """Connections that are closed after the test."""
    opened: list[socket.socket] = []
    yield opened
    for connection in opened:
        connection.close()


def connect(broker: BrokerProcess) -> socket.socket:
    host, port = broker.bootstrap_servers.split(":")
    return socket.create_connection((host, int(port)), timeout=120)


def begin_request(connection: socket.socket, arrived_bytes: int) -> None:
    """Sends the first bytes of a request that claims to be much longer."""
    connection.sendall(struct.pack(">i", CLAIMED_BYTES))
    piece = bytes(MEGABYTE)
    for start in range(0, arrived_bytes, MEGABYTE):
        connection.sendall(piece[: arrived_bytes - start])


@pytest.mark.parametrize(
    ("count", "arrived_bytes"), [(4, 60 * MEGABYTE), (40, 6 * MEGABYTE), (400, 300_000), (1000, 20_000)]
)
def test_a_request_that_has_not_arrived_takes_what_has(
    start_broker: Callable[..., BrokerProcess],
    connections: list[socket.socket],
    count: int,
    arrived_bytes: int,
) -> None:
    """Unfinished requests use at most a quarter more memory than the bytes sent, with any claimed length. The memory is
    freed when their connections close."""
    broker = start_broker(queued_max_request_bytes="-1")
    with Wire(broker.bootstrap_servers) as wire:
        wire.call(MetadataResponse, 12, MetadataRequest())
        before = resident_bytes(broker.pid)
        for _ in range(count):
            connections.append(connect(broker))
            begin_request(connections[-1], arrived_bytes)
        wait_until_received(connections)
        held = resident_bytes(broker.pid) - before
        assert held < 1.25 * count * arrived_bytes + SPARE_BYTES
        for connection in connections:
            connection.close()
        wait_until(lambda: resident_bytes(broker.pid) - before < 2 * SPARE_BYTES)
        wire.call(MetadataResponse, 12, MetadataRequest())


def test_all_of_them_together_have_a_limit(
    start_broker: Callable[..., BrokerProcess], connections: list[socket.socket]
) -> None:
    """Twenty unfinished large requests use no more than `queued.max.request.bytes` and one request: 128 MiB and 100 MB.

    Meanwhile the broker answers small requests, and a large request of another client.
    """
    broker = start_broker()
    with Wire(broker.bootstrap_servers) as wire:
        topic = CreatableTopic(name="events", num_partitions=1, replication_factor=1)
        answer = wire.call(CreateTopicsResponse, 7, CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        assert not answer.topics[0].error_code
        before = resident_bytes(broker.pid)
        connections += [connect(broker) for _ in range(20)]
        for connection in connections:
            threading.Thread(target=begin_request_if_let, args=(connection, 50 * MEGABYTE), daemon=True).start()
        largest = 0
        while largest < LIMIT_BYTES * 3 // 4:
            wire.call(MetadataResponse, 12, MetadataRequest())
            largest = max(largest, resident_bytes(broker.pid) - before)
        wire.socket.settimeout(120)
        records = memoryview(encode_batch([(1, None, b"x" * 900_000, ())]))
        while "others wait for the memory" not in broker.log():
            response = wire.produce(9, ProduceRequest(None, 1, 30_000, [ProduceTopic("events", None, [(0, records)])]))
            assert response.topics[0].partitions[0].error_code == ErrorCode.NONE
            largest = max(largest, resident_bytes(broker.pid) - before)
        assert largest < LIMIT_BYTES + CLAIMED_BYTES + SPARE_BYTES


def begin_request_if_let(connection: socket.socket, arrived_bytes: int) -> None:
    """Begins a request, and ignores that the broker or the test closes the connection."""
    with contextlib.suppress(OSError):
        begin_request(connection, arrived_bytes)
