"""Tests which broker a client asks for what every broker can answer."""

from __future__ import annotations

import asyncio
import contextlib

from tests.support.scripted_broker import ScriptedBroker

from klamm.client.aio_cluster import AsyncCluster
from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig


def test_open_connections_are_asked_in_turn(broker: ScriptedBroker, config: ClientConfig) -> None:
    """No broker answers all requests: one that is cut off from the others would answer with old metadata for ever."""
    with ScriptedBroker() as other, contextlib.closing(Cluster(config)) as cluster:
        both = {cluster.connection_to_address(address) for address in (broker.address, other.address)}

        assert {cluster.any_connection() for _ in both} == both


def test_open_connections_of_tasks_are_asked_in_turn(broker: ScriptedBroker, config: ClientConfig) -> None:
    """The same holds for the client of an event loop."""

    async def act() -> None:
        with ScriptedBroker() as other, contextlib.closing(AsyncCluster(config)) as cluster:
            both = {await cluster.connection_to_address(address) for address in (broker.address, other.address)}

            assert {await cluster.any_connection() for _ in both} == both

    asyncio.run(act())
