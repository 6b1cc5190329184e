"""Tests clients that don't read their answers or disconnect early: other clients are not affected, and requests take
effect."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.wire import Wire

from klamm.protocol.api import ApiKey
from klamm.protocol.codec import encode
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fetch_client import decode_fetch_response, encode_fetch_request
from klamm.protocol.fetch_messages import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.produce import ProduceRequest, ProduceTopic
from klamm.protocol.records import encode_batch
from klamm.protocol.schema.create_topics_request import CreatableTopic, CreateTopicsRequest
from klamm.protocol.schema.create_topics_response import CreateTopicsResponse
from klamm.protocol.schema.metadata_request import MetadataRequest
from klamm.protocol.schema.metadata_response import MetadataResponse
from klamm.testing import Broker

PARTITIONS = 60
RECORD_BYTES = 900_000
FETCH = 11


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A new broker for each test, because memory is measured."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    """A connection of a well-behaved client."""
    with Wire(broker.bootstrap_servers) as wire:
        yield wire


def create(name: str, partitions: int = 1) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=10_000)


def fetch(name: str, partitions: int, *, max_wait_ms: int = 0) -> bytes:
    asked = [FetchPartition(index, -1, 0, -1, -1, 1024 * 1024) for index in range(partitions)]
    request = FetchRequest(-1, max_wait_ms, 1, 50 * 1024 * 1024, 0, 0, -1, [FetchTopic(name, None, asked)], [])
    return encode_fetch_request(FETCH, request)


def resident_bytes() -> int:
    """Returns the resident memory of this process, which includes the broker."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen within a minute"
        time.sleep(0.01)


def test_readers_that_never_read_do_not_fill_the_memory(broker: Broker, wire: Wire) -> None:
    """Twenty clients that request 50 MB each and read no answer use less than 300 MB, and another client is still
    served."""
    assert not wire.call(CreateTopicsResponse, 7, create("large", PARTITIONS)).topics[0].error_code
    records = memoryview(encode_batch([(1, b"k", b"x" * RECORD_BYTES, ())]))
    for index in range(PARTITIONS):
        wire.produce(9, ProduceRequest(None, 1, 10_000, [ProduceTopic("large", None, [(index, records)])]))
    before = resident_bytes()
    readers = [Wire(broker.bootstrap_servers) for _ in range(20)]
    for reader in readers:
        reader.send(ApiKey.FETCH, FETCH, fetch("large", PARTITIONS))
        # The broker has handled this request when a later request of another client is answered.
        answer = decode_fetch_response(FETCH, wire.exchange(ApiKey.FETCH, FETCH, fetch("large", 1)))
        assert len(answer.topics[0].partitions[0].records or b"") > RECORD_BYTES
    assert resident_bytes() - before < 300_000_000
    for reader in readers:
        reader.socket.close()


def test_a_half_closed_client_gets_the_answer_to_its_last_request(broker: Broker, wire: Wire) -> None:
    """A client that closes its sending side gets the answer to its last request, even after a wait; then the broker
    closes the connection."""
    assert not wire.call(CreateTopicsResponse, 7, create("empty")).topics[0].error_code
    with Wire(broker.bootstrap_servers) as other:
        other.send(ApiKey.FETCH, FETCH, fetch("empty", 1, max_wait_ms=300))
        other.socket.shutdown(socket.SHUT_WR)
        answer = decode_fetch_response(FETCH, other.receive(ApiKey.FETCH, FETCH))
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        assert other.socket.recv(1) == b""


def test_what_was_asked_is_done_although_nobody_waits_for_it(broker: Broker, wire: Wire) -> None:
    """A request takes effect although its client disconnects without reading the answer, with or without a reset."""
    names = [f"topic-{number}" for number in range(20)]
    for number, name in enumerate(names):
        with Wire(broker.bootstrap_servers) as other:
            other.send(ApiKey.CREATE_TOPICS, 7, encode(create(name), 7))
            if number % 2:
                # A reset would discard bytes that the broker has not received yet.
                wire.call(MetadataResponse, 1, MetadataRequest(topics=[]))
                other.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def topics() -> set[str | None]:
        return {topic.name for topic in wire.call(MetadataResponse, 1, MetadataRequest(topics=None)).topics}

    wait_until(lambda: topics() >= set(names))
