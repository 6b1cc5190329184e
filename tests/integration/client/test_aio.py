"""The asyncio client: tasks share connections, and errors are the same as in the blocking client."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.support.running_worker import wait_until
from tests.support.scripted_broker import ScriptedBroker

from klamm.client.aio import AsyncConnection
from klamm.client.aio_cluster import AsyncCluster
from klamm.client.config import ClientConfig
from klamm.client.errors import ConnectionFailed, GaveUp, RequestTimedOut
from klamm.client.list_offsets import LATEST, listing_latest_offsets, listing_offsets
from klamm.protocol.schema.list_offsets_request import ListOffsetsRequest
from klamm.protocol.schema.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from klamm.protocol.schema.metadata_request import MetadataRequest, MetadataRequestTopic
from klamm.protocol.schema.metadata_response import MetadataResponse
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition

T = TypeVar("T")

API_VERSIONS, METADATA = 18, 3


def with_connection(config: ClientConfig, act: Callable[[AsyncConnection], Awaitable[T]]) -> T:
    async def run() -> T:
        connection = await AsyncConnection.open(config.bootstrap_servers[0], config)
        try:
            return await act(connection)
        finally:
            connection.close()

    return asyncio.run(run())


def with_cluster(config: ClientConfig, act: Callable[[AsyncCluster], Awaitable[T]]) -> T:
    async def run() -> T:
        with contextlib.closing(AsyncCluster(config)) as cluster:
            return await act(cluster)

    return asyncio.run(run())


def metadata_of(name: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name)])


def test_answers_can_be_taken_in_any_order(broker: ScriptedBroker, config: ClientConfig) -> None:
    """Requests of many tasks run on one connection at the same time; an abandoned request does not affect the
    others."""

    async def act(connection: AsyncConnection) -> list[str | None]:
        first, second, third = (connection.send(metadata_of(name)) for name in "abc")
        connection.abandon(second)
        answers = [await connection.receive(one, MetadataResponse) for one in (third, first)]
        several = await asyncio.gather(*(connection.request(metadata_of(name), MetadataResponse) for name in "defg"))
        return [answer.topics[0].name for answer in [*answers, *several]]

    assert with_connection(config, act) == ["c", "a", "d", "e", "f", "g"]


def test_who_is_cancelled_has_abandoned_the_request(broker: ScriptedBroker, config: ClientConfig) -> None:
    """A cancelled task abandons its request: its late answer is dropped, and the connection stays usable."""
    release = threading.Event()

    def slow(request: MetadataRequest) -> MetadataResponse:
        release.wait(10)
        return broker.metadata(request)

    broker.on(MetadataRequest, slow)

    async def act(connection: AsyncConnection) -> str | None:
        task = asyncio.create_task(connection.request(metadata_of("a"), MetadataResponse))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        release.set()
        return (await connection.request(metadata_of("b"), MetadataResponse)).topics[0].name

    assert with_connection(config, act) == "b"


def test_nobody_there(config: ClientConfig) -> None:
    """The error for a refused connection names the address and what to check."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()

    with pytest.raises(ConnectionFailed, match=f"{address[1]}.*Is a broker running there"):
        asyncio.run(AsyncConnection.open(address, config))


def test_a_broker_that_hangs_up(broker: ScriptedBroker, config: ClientConfig) -> None:
    """When the broker closes the connection, waiting and later requests fail."""
    broker.on(MetadataRequest, lambda _: None)

    async def act(connection: AsyncConnection) -> None:
        asked = [connection.request(metadata_of(name), MetadataResponse) for name in "ab"]
        for failure in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(failure, ConnectionFailed)
        assert connection.is_closed
        with pytest.raises(ConnectionFailed):
            connection.send(metadata_of("t"))

    with_connection(config, act)


def test_a_broker_that_does_not_answer(broker: ScriptedBroker, config: ClientConfig) -> None:
    """A request without an answer fails after `request.timeout.ms`, and the connection is closed."""
    release = threading.Event()

    def wait(_: object) -> None:
        release.wait(10)

    broker.on(MetadataRequest, wait)

    async def act(connection: AsyncConnection) -> None:
        with pytest.raises(RequestTimedOut, match=r"request\.timeout\.ms=200"):
            await connection.request(metadata_of("t"), MetadataResponse)
        assert connection.is_closed

    with_connection(dataclasses.replace(config, request_timeout_ms=200), act)
    release.set()


@pytest.mark.parametrize(
    "reply", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x15\x03\x03\x00\x02\x02\x46\x00\x00", b"\0\0\0\x08\x7f\0\0\0aaaa"]
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
            asyncio.run(AsyncConnection.open(listener.getsockname(), config))
        thread.join()


def test_an_answer_that_cannot_be_read(broker: ScriptedBroker, config: ClientConfig) -> None:
    """A malformed answer closes the connection, because the rest of the stream can't be trusted."""
    broker.on(MetadataRequest, lambda _: b"\x00\x00")

    async def act(connection: AsyncConnection) -> None:
        with pytest.raises(ConnectionFailed, match="malformed MetadataResponse"):
            await connection.request(metadata_of("t"), MetadataResponse)
        assert connection.is_closed

    with_connection(config, act)


def test_tasks_share_one_connection(broker: ScriptedBroker, config: ClientConfig) -> None:
    """Tasks share one connection, also if they need it at the same moment."""

    async def act(cluster: AsyncCluster) -> None:
        await asyncio.gather(*(cluster.refresh([name]) for name in "abcdef"))
        assert all(cluster.topic(name) is not None for name in "abcdef")

    with_cluster(config, act)

    assert [key for key, _ in broker.seen].count(API_VERSIONS) == 1


def test_metadata_is_asked_for_until_it_comes(broker: ScriptedBroker, config: ClientConfig) -> None:
    """A broken connection is opened again for the metadata request; metadata of a known topic is not requested
    twice."""
    broker.on(MetadataRequest, lambda _: None, lambda _: None, broker.metadata)

    async def act(cluster: AsyncCluster) -> None:
        await cluster.ensure(["t"])
        await cluster.ensure(["t"])

    with_cluster(config, act)

    assert [key for key, _ in broker.seen].count(METADATA) == 3


def test_a_cluster_that_is_gone(config: ClientConfig) -> None:
    """An unreachable cluster raises an error with the last cause after `default.api.timeout.ms`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
    gone = dataclasses.replace(config, bootstrap_servers=(address,), default_api_timeout_ms=100)

    with pytest.raises(GaveUp, match=r"learn the partitions of t.*no connection to the broker"):
        with_cluster(gone, lambda cluster: cluster.refresh(["t"]))


def test_offsets_are_listed_by_the_same_steps(broker: ScriptedBroker, config: ClientConfig) -> None:
    """ListOffsets looks for a leader that has moved, as in the blocking client."""

    def answer(code: int) -> Callable[[ListOffsetsRequest], ListOffsetsResponse]:
        return lambda request: ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=partition.partition_index,
                            error_code=code if partition.partition_index < broker.partitions else 3,
                            offset=7,
                        )
                        for partition in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    not_leader = 6
    partition = TopicPartition("t", PartitionIndex(0))
    broker.on(ListOffsetsRequest, answer(not_leader), answer(0))

    async def act(cluster: AsyncCluster) -> None:
        assert (await cluster.run(listing_offsets(cluster, {partition: LATEST})))[partition].offset == 7
        assert await cluster.run(listing_latest_offsets(cluster, ["t"])) == {partition: 7}

    with_cluster(config, act)
    assert [key for key, _ in broker.seen].count(METADATA) == 2


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_broker_of_klamm(loop: str) -> None:
    """The client works with klamm's broker on both event loops; uvloop has its own transports and clock."""
    from klamm.testing import Broker

    factory = pytest.importorskip("uvloop").new_event_loop if loop == "uvloop" else None
    with Broker() as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        admin.create_topics([NewTopic("flights", 2, 1)])["flights"].result(30)
        config = ClientConfig.from_mapping({"bootstrap.servers": running.bootstrap_servers})

        async def act() -> dict[TopicPartition, Offset]:
            with contextlib.closing(AsyncCluster(config)) as cluster:
                return await cluster.run(listing_latest_offsets(cluster, ["flights"]))

        with asyncio.Runner(loop_factory=factory) as runner:
            found = runner.run(act())

    assert found == {TopicPartition("flights", PartitionIndex(index)): 0 for index in range(2)}


def test_an_answer_that_waits_for_a_busy_loop_counts(broker: ScriptedBroker, config: ClientConfig) -> None:
    """An answer that arrived in time counts, also if the loop was busy until `request.timeout.ms` was over."""

    async def act(connection: AsyncConnection) -> str | None:
        pending = connection.send(metadata_of("t"))
        await asyncio.sleep(0)
        wait_until(lambda: broker.sent_answers == 2)
        time.sleep(1)  # noqa: ASYNC251 - the loop is to be busy
        return (await connection.receive(pending, MetadataResponse)).topics[0].name

    assert with_connection(dataclasses.replace(config, request_timeout_ms=1000), act) == "t"
