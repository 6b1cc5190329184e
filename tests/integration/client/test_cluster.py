"""Tests which broker a client asks for what every broker can answer."""

from __future__ import annotations

import asyncio
import contextlib

from tests.support.scripted_broker import ScriptedBroker

from klamm.client.aio_cluster import AsyncCluster
from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig


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
