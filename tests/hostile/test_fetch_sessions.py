"""Tests clients that begin fetch sessions with thousands of partitions: their memory is bounded and is reused."""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Callable

import pytest
from tests.hostile.resident_memory import resident_bytes
from tests.interop.broker_process import BrokerProcess
from tests.support.patience import Limit
from tests.support.wire import Wire

from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fetch_client import encode_fetch_request
from klamm.protocol.fetch_messages import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.schema.create_topics_request import CreatableTopic, CreateTopicsRequest
from klamm.protocol.schema.create_topics_response import CreateTopicsResponse
from klamm.protocol.schema.metadata_request import MetadataRequest
from klamm.protocol.schema.metadata_response import MetadataResponse

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is looked up in /proc")

TOPIC = "events"
MEGABYTE = 1024 * 1024
VERSION = 11
CLIENTS = 150
PARTITIONS = 1000
SLOTS = 1000
"""The default of `max.incremental.fetch.session.cache.slots`; each slot has room for a hundred partitions."""
BYTES_EACH = 600
SPARE_BYTES = 24 * MEGABYTE
ROUNDS = 3


def begin_session(wire: Wire, client: int) -> int:
    """Fetches one existing and many unknown partitions, which Kafka keeps in the session too. Returns the session
    id."""
    wanted = [FetchPartition(index, -1, 0, -1, -1, MEGABYTE) for index in range(PARTITIONS)]
    topics = [FetchTopic(TOPIC, None, wanted[:1]), FetchTopic(f"unknown-{client}", None, wanted[1:])]
    request = FetchRequest(-1, 0, 1, MEGABYTE, 0, 0, 0, topics, [])
    response = wire.fetch(VERSION, request)
    assert response.error_code == ErrorCode.NONE
    return response.session_id


def wait_for_records(wire: Wire, session_id: int) -> None:
    """Sends the next request of the session, which waits for records."""
    request = FetchRequest(-1, 600_000, 1, MEGABYTE, 0, session_id, 1, [], [])
    wire.send(ApiKey.FETCH, VERSION, encode_fetch_request(VERSION, request))


def reset(wire: Wire) -> None:
    """Closes a connection with a reset, like the end of the client's process."""
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.socket.close()


def fill(broker: BrokerProcess) -> tuple[list[Wire], list[Wire]]:
    """Requests sessions for many clients. Returns all clients, and those with a session, whose next requests wait for
    records."""
    wires = [Wire(broker.bootstrap_servers) for _ in range(CLIENTS)]
    sessions = {wire: begin_session(wire, client) for client, wire in enumerate(wires)}
    with_session = [wire for wire, session_id in sessions.items() if session_id]
    for wire in with_session:
        wait_for_records(wire, sessions[wire])
    return wires, with_session


def test_sessions_take_a_bounded_memory_and_give_it_back(start_broker: Callable[..., BrokerProcess]) -> None:
    """All sessions together have room for a hundred partitions per slot, and the other clients get no session.

    When clients with a session disconnect while they wait, other clients get sessions and reuse the memory. The memory
    does not return to the system, because a block of Python's memory remains while any object uses it.
    """
    broker = start_broker()
    with Wire(broker.bootstrap_servers) as victim:
        topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
        answer = victim.call(CreateTopicsResponse, 7, CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
        assert not answer.topics[0].error_code
        before = resident_bytes(broker.pid)
        taken: list[int] = []
        for _ in range(ROUNDS):
            limit = Limit(60)
            while True:
                wires, with_session = fill(broker)
                if len(with_session) == SLOTS * 100 // PARTITIONS:
                    break
                assert taken, "the first clients get all sessions"
                assert not limit.is_over, f"{len(with_session)} sessions are free"
                for wire in wires:
                    reset(wire)
            victim.call(MetadataResponse, 12, MetadataRequest())
            taken.append(resident_bytes(broker.pid) - before)
            for wire in wires:
                reset(wire)
        assert taken[0] < SLOTS * 100 * BYTES_EACH + SPARE_BYTES
        assert taken[-1] < taken[0] * 1.5
