"""Tests bytes that no correct client sends: each costs its own connection and does not affect other clients."""

from __future__ import annotations

import logging
import os
import random
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.socket_reads import receive_exactly

from klamm.protocol.api import ApiKey
from klamm.protocol.codec import decode, encode
from klamm.protocol.errors import ErrorCode
from klamm.protocol.headers import encode_request_header
from klamm.protocol.schema.api_versions_request import ApiVersionsRequest
from klamm.protocol.schema.api_versions_response import ApiVersionsResponse
from klamm.protocol.schema.metadata_request import MetadataRequest
from klamm.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One broker for the file, because the bytes of one test must not affect the next test."""
    with Broker(config={"socket.request.max.bytes": "1000000"}) as broker:
        yield broker


@pytest.fixture
def peer(broker: Broker) -> Iterator[socket.socket]:
    """A plain socket to the broker."""
    with connect(broker) as connection:
        yield connection


def connect(broker: Broker) -> socket.socket:
    host, port = broker.bootstrap_servers.split(":")
    return socket.create_connection((host, int(port)), timeout=60)


def frame(api_key: int, version: int, body: bytes, correlation_id: int = 7) -> bytes:
    header = struct.pack(">hhih", api_key, version, correlation_id, 4) + b"test"
    return struct.pack(">i", len(header) + len(body)) + header + body


def receive_frame(connection: socket.socket) -> bytes:
    size = struct.unpack(">i", receive_exactly(connection, 4))[0]
    return receive_exactly(connection, size)


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def assert_serves(broker: Broker) -> None:
    """Checks that the broker answers another client."""
    with connect(broker) as other:
        other.sendall(frame(ApiKey.API_VERSIONS, 0, b""))
        answer = receive_frame(other)
    assert struct.unpack_from(">i", answer)[0] == 7
    response, _ = decode(ApiVersionsResponse, 0, answer, 4)
    assert response.error_code == ErrorCode.NONE


@pytest.mark.parametrize("size", [-1, -(2**31), 1_000_001, 2**31 - 1])
def test_frame_length_out_of_bounds_closes(
    broker: Broker, peer: socket.socket, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A negative or too large frame length closes the connection at once, with one log line that names the peer."""
    with caplog.at_level(logging.WARNING, "klamm"):
        peer.sendall(struct.pack(">i", size) + b"anything")
        assert is_closed(peer)
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("klamm")]
    assert len(lines) == 1
    assert f":{peer.getsockname()[1]}" in lines[0] if peer.fileno() >= 0 else True
    assert_serves(broker)


def test_unknown_api_closes(broker: Broker, peer: socket.socket) -> None:
    """An unknown API key closes the connection, as in Kafka."""
    peer.sendall(frame(9999, 0, b""))
    assert is_closed(peer)
    assert_serves(broker)


def test_unsupported_version_closes(broker: Broker, peer: socket.socket, caplog: pytest.LogCaptureFixture) -> None:
    """An unsupported version of any API except ApiVersions closes the connection, as in Kafka.

    One log line names the API and the supported versions, without a traceback.
    """
    with caplog.at_level(logging.WARNING, "klamm"):
        peer.sendall(frame(ApiKey.METADATA, 99, b"\0"))
        assert is_closed(peer)
    (line,) = [record for record in caplog.records if record.name.startswith("klamm")]
    assert "METADATA version 99 is not served (0 to 13 are)" in line.getMessage()
    assert line.exc_info is None
    assert_serves(broker)


def test_produce_of_an_old_message_format_closes(broker: Broker, peer: socket.socket) -> None:
    """Produce versions 0 to 2, which the broker advertises only for librdkafka (KAFKA-18659), close the connection."""
    peer.sendall(frame(ApiKey.PRODUCE, 2, b"\0" * 12))
    assert is_closed(peer)
    assert_serves(broker)


def test_api_versions_of_an_unknown_version_is_answered_in_version_0(peer: socket.socket) -> None:
    """KIP-511: an unknown version of ApiVersions gets an answer with the supported versions, and the connection stays
    open."""
    peer.sendall(frame(ApiKey.API_VERSIONS, 99, b"\0\0\0"))
    answer = receive_frame(peer)
    response, end = decode(ApiVersionsResponse, 0, answer, 4)
    assert end == len(answer)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(api.api_key, api.min_version, api.max_version) for api in response.api_keys] == [(18, 0, 4)]
    peer.sendall(frame(ApiKey.API_VERSIONS, 0, b""))
    assert decode(ApiVersionsResponse, 0, receive_frame(peer), 4)[0].error_code == ErrorCode.NONE


def test_api_versions_without_software_name_is_refused(peer: socket.socket) -> None:
    """KIP-511: an ApiVersions request with an invalid name of the client software gets INVALID_REQUEST."""
    request = encode(ApiVersionsRequest(client_software_name="-bad-", client_software_version="1"), 3)
    peer.sendall(_with_header(ApiKey.API_VERSIONS, 3, request))
    response, _ = decode(ApiVersionsResponse, 3, receive_frame(peer), 4)
    assert response.error_code == ErrorCode.INVALID_REQUEST


def _with_header(api_key: ApiKey, version: int, body: bytes) -> bytes:
    header = encode_request_header(api_key, version, 1, "test")
    return struct.pack(">i", len(header) + len(body)) + header + body


@pytest.mark.parametrize("count", [1_000_000, 2**31 - 1])
def test_count_beyond_the_frame_closes(broker: Broker, peer: socket.socket, count: int) -> None:
    """An array that claims more elements than the frame has bytes closes the connection, without memory for the
    array."""
    before = resident_bytes()
    peer.sendall(frame(ApiKey.METADATA, 0, struct.pack(">i", count)))
    assert is_closed(peer)
    assert resident_bytes() - before < 50_000_000
    assert_serves(broker)


def resident_bytes() -> int:
    """Returns the resident memory of this process, which includes the broker."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def test_length_without_bytes_allocates_nothing(broker: Broker) -> None:
    """A hundred connections that each claim a megabyte and send only ten bytes use less than 20 MB together."""
    before = resident_bytes()
    connections = [connect(broker) for _ in range(100)]
    for connection in connections:
        connection.sendall(struct.pack(">i", 999_999) + b"x" * 10)
    assert_serves(broker)
    assert resident_bytes() - before < 20_000_000
    for connection in connections:
        connection.close()


def test_frame_in_single_bytes_is_answered(peer: socket.socket) -> None:
    """A frame that arrives in single bytes is answered."""
    for byte in _with_header(ApiKey.METADATA, 1, encode(MetadataRequest(topics=[]), 1)):
        peer.sendall(bytes((byte,)))
    assert struct.unpack_from(">i", receive_frame(peer))[0] == 1


def test_pipelined_requests_are_answered_in_order(peer: socket.socket) -> None:
    """Many requests in one piece are answered in their order."""
    peer.sendall(b"".join(frame(ApiKey.API_VERSIONS, 0, b"", correlation_id) for correlation_id in range(200)))
    for correlation_id in range(200):
        assert struct.unpack_from(">i", receive_frame(peer))[0] == correlation_id


def test_random_bytes_never_stop_the_broker(broker: Broker) -> None:
    """Frames of random content, for every API except DeleteTopics, are refused or answered, and the broker
    continues."""
    chance = random.Random(20130101)
    for _ in range(300):
        with connect(broker) as connection:
            body = chance.randbytes(chance.choice((0, 1, 7, 60, 500)))
            api_key = chance.choice([key for key in ApiKey if key not in (ApiKey.DELETE_TOPICS,)])
            connection.sendall(frame(api_key, chance.randrange(0, 14), body))
            connection.shutdown(socket.SHUT_WR)
            while True:
                try:
                    if not connection.recv(65536):
                        break
                except ConnectionResetError:
                    break
    assert_serves(broker)
