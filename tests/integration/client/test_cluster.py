"""Tests which broker a client asks for what every broker can answer."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from tests.support.scripted_broker import ScriptedBroker

from klamm.client.aio_cluster import AsyncCluster
from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.client.connection import Pending
from klamm.client.errors import UnsupportedByBroker
from klamm.client.operations import Ask, Steps
from klamm.protocol.message import Message
from klamm.protocol.schema.elect_leaders_request import ElectLeadersRequest
from klamm.protocol.schema.metadata_request import MetadataRequest
from klamm.protocol.schema.metadata_response import MetadataResponse


def test_the_same_open_connection_is_asked_each_time(broker: ScriptedBroker, config: ClientConfig) -> None:
    """The brokers learn of a change one after the other: another one may not know yet what the caller has changed."""
    with ScriptedBroker() as other, contextlib.closing(Cluster(config)) as cluster:
        first, second = (cluster.connection_to_address(address) for address in (broker.address, other.address))

        assert [cluster.any_connection() for _ in range(3)] == [first] * 3
        first.close()
        assert cluster.any_connection() is second


def test_another_broker_is_asked_after_a_turn(broker: ScriptedBroker) -> None:
    """A caller that doubts the metadata of a broker asks another one, and stays with the broker if there is none."""
    with ScriptedBroker() as other:
        both = ClientConfig((broker.address, other.address))
        with contextlib.closing(Cluster(both)) as cluster:
            first = cluster.any_connection()
            cluster.turn()
            second = cluster.any_connection()
            assert second is not first
            assert cluster.any_connection() is second
            cluster.turn()
            assert cluster.any_connection() is first

    with contextlib.closing(Cluster(ClientConfig((broker.address,)))) as cluster:
        alone = cluster.any_connection()
        cluster.turn()
        assert cluster.any_connection() is alone


def test_tasks_ask_the_same_open_connection_each_time(broker: ScriptedBroker, config: ClientConfig) -> None:
    """The same holds for the client of an event loop."""

    async def act() -> None:
        with ScriptedBroker() as other, contextlib.closing(AsyncCluster(config)) as cluster:
            first, second = [await cluster.connection_to_address(each) for each in (broker.address, other.address)]

            assert [await cluster.any_connection() for _ in range(3)] == [first] * 3
            first.close()
            assert await cluster.any_connection() is second

    asyncio.run(act())


def test_an_error_leaves_no_request_behind(broker: ScriptedBroker, config: ClientConfig) -> None:
    """If a step with several requests fails, the responses to those that were sent are dropped when they arrive. A
    client that goes on would collect them."""

    def asking(*requests: Message) -> Steps[list[Any]]:
        replies: list[Any] = yield Ask([(None, request) for request in requests], MetadataResponse)
        return replies

    with contextlib.closing(Cluster(config)) as cluster:
        connection = cluster.any_connection()
        sent: list[Pending] = []
        send = connection.send

        def send_and_note(request: Message) -> Pending:
            sent.append(send(request))
            return sent[-1]

        connection.send = send_and_note  # type: ignore[method-assign,assignment]
        with pytest.raises(UnsupportedByBroker):
            cluster.run(asking(MetadataRequest(), ElectLeadersRequest()))
        assert len(cluster.run(asking(MetadataRequest()))) == 1

        assert [connection.take(pending) for pending in sent] == [None, None]
