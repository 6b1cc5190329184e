"""A connection negotiates versions, matches answers to requests, and raises errors that name the peer."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import re
import socket
import threading
import time

import pytest
from tests.support.running_worker import wait_until
from tests.support.scripted_broker import ScriptedBroker

from klamm.client.aio import AsyncConnection
from klamm.client.config import ClientConfig
from klamm.client.connection import Connection
from klamm.client.errors import ConnectionFailed, RequestTimedOut, UnsupportedByBroker
from klamm.protocol.codec import encode
from klamm.protocol.schema.api_versions_request import ApiVersionsRequest
from klamm.protocol.schema.api_versions_response import ApiVersionsResponse
from klamm.protocol.schema.list_offsets_request import ListOffsetsRequest
from klamm.protocol.schema.list_offsets_response import ListOffsetsResponse
from klamm.protocol.schema.metadata_request import MetadataRequest, MetadataRequestTopic
from klamm.protocol.schema.metadata_response import MetadataResponse


def metadata_of(name: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name)])


def test_the_highest_version_of_both_sides_is_used(broker: ScriptedBroker, config: ClientConfig) -> None:
    """A request uses the highest version that both sides support."""
    broker.versions[3] = (0, 9)
    connection = Connection(broker.address, config)

    connection.request(metadata_of("t"), MetadataResponse)
    connection.close()

    assert broker.seen[-1] == (3, 9)


def test_a_broker_that_does_not_know_our_api_versions_is_asked_again(
    broker: ScriptedBroker, config: ClientConfig
) -> None:
    """A broker that refuses the client's ApiVersions version names its range in a version 0 answer; the client retries
    in that range (KIP-511)."""
    broker.versions[18] = (0, 2)

    def refuse(_: object) -> bytes:
        answer = broker.api_versions()
        answer.error_code = 35
        return encode(answer, 0)

    broker.on(ApiVersionsRequest, refuse, lambda _: broker.api_versions())

    Connection(broker.address, config).close()

    assert broker.seen == [(18, 4), (18, 2)]


def test_no_version_in_common_is_an_error_that_names_both_ranges(broker: ScriptedBroker, config: ClientConfig) -> None:
    """The error for no common version names both ranges; an API that the broker does not offer is an error too."""
    broker.versions[3] = (14, 20)
    del broker.versions[2]
    connection = Connection(broker.address, config)

    with pytest.raises(UnsupportedByBroker, match=r"versions 14 to 20.*0 to 13"):
        connection.request(metadata_of("t"), MetadataResponse)
    with pytest.raises(UnsupportedByBroker, match="does not offer ListOffsets"):
        connection.request(ListOffsetsRequest(), ListOffsetsResponse)
    connection.close()


def test_answers_can_be_taken_in_any_order(broker: ScriptedBroker, config: ClientConfig) -> None:
    """Requests are pipelined and answers can be received in any order; an abandoned request does not affect the
    others."""
    connection = Connection(broker.address, config)
    first, second, third = (connection.send(metadata_of(name)) for name in "abc")
    connection.abandon(second)

    assert connection.receive(third, MetadataResponse).topics[0].name == "c"
    assert connection.receive(first, MetadataResponse).topics[0].name == "a"
    connection.close()


def test_nobody_there(config: ClientConfig) -> None:
    """The error for a refused connection names the address and what to check."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()

    with pytest.raises(ConnectionFailed, match=f"{address[1]}.*Is a broker running there"):
        Connection(address, config)


def test_a_broker_that_hangs_up(broker: ScriptedBroker, config: ClientConfig) -> None:
    """When the broker closes the connection, the connection stays closed for later requests."""
    broker.on(MetadataRequest, lambda _: None)
    connection = Connection(broker.address, config)

    with pytest.raises(ConnectionFailed, match=r"closed the connection|broke"):
        connection.request(metadata_of("t"), MetadataResponse)
    assert connection.is_closed
    with pytest.raises(ConnectionFailed, match="is closed"):
        connection.send(metadata_of("t"))


def test_a_broker_that_does_not_answer(broker: ScriptedBroker, config: ClientConfig) -> None:
    """A request without an answer fails after `request.timeout.ms`, and the connection is closed."""
    release = threading.Event()

    def wait(_: object) -> None:
        release.wait(10)

    broker.on(MetadataRequest, wait)
    connection = Connection(broker.address, dataclasses.replace(config, request_timeout_ms=50))

    with pytest.raises(RequestTimedOut, match=r"request\.timeout\.ms=50"):
        connection.request(metadata_of("t"), MetadataResponse)
    assert connection.is_closed
    release.set()


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x15\x03\x03\x00\x02\x02\x46\x00\x00",
        b"\x00\x00\x00\x08\x7f\x00\x00\x00aaaa",
    ],
)
def test_a_peer_that_is_no_kafka_broker(config: ClientConfig, reply: bytes) -> None:
    """A web server, a TLS listener or a wrong correlation id is reported as a peer that is not a Kafka broker."""

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(reply)
            with contextlib.suppress(ConnectionResetError):
                connection.recv(1000)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        with pytest.raises(ConnectionFailed, match="does not answer like a Kafka broker"):
            Connection(listener.getsockname(), config)
        thread.join()


def test_an_answer_that_cannot_be_read(broker: ScriptedBroker, config: ClientConfig) -> None:
    """A malformed answer closes the connection, because the rest of the stream can't be trusted."""
    broker.on(MetadataRequest, lambda _: b"\x00\x00")
    connection = Connection(broker.address, config)

    with pytest.raises(ConnectionFailed, match="malformed MetadataResponse"):
        connection.request(metadata_of("t"), MetadataResponse)
    assert connection.is_closed


def test_a_refusal_of_the_handshake(broker: ScriptedBroker, config: ClientConfig) -> None:
    """An error code in ApiVersions other than the one for an unsupported version fails the connection."""
    broker.on(ApiVersionsRequest, lambda _: ApiVersionsResponse(error_code=42))

    with pytest.raises(ConnectionFailed, match="error code 42"):
        Connection(broker.address, config)


def test_an_answer_that_waits_for_a_busy_caller_counts(broker: ScriptedBroker, config: ClientConfig) -> None:
    """An answer that arrived in time counts, also if the caller looks for it only after `request.timeout.ms`, because
    it waited for another broker."""
    connection = Connection(broker.address, dataclasses.replace(config, request_timeout_ms=1000))
    pending = connection.send(metadata_of("t"))
    wait_until(lambda: broker.sent_answers == 2)
    time.sleep(1)

    assert connection.receive(pending, MetadataResponse).topics[0].name == "t"
    connection.close()


def test_a_name_that_is_no_host_name(config: ClientConfig) -> None:
    """An address whose host can't be a name is an error that names the address."""
    for host in ("one..two", "a" * 64):
        with pytest.raises(ConnectionFailed, match=rf"{re.escape(host)}:9092.*is the address right"):
            Connection((host, 9092), config)
        with pytest.raises(ConnectionFailed, match=rf"{re.escape(host)}:9092.*is the address right"):
            asyncio.run(AsyncConnection.open((host, 9092), config))
