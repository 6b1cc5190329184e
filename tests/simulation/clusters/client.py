"""A client of several brokers: it finds leaders by Metadata, and coordinators by FindCoordinator."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping

from tests.simulation.brokers.clients.client import Client, ClientConnection, Coordinator, Destination, Leader
from tests.simulation.brokers.network import Network

from klamm.client.cluster_view import error_code
from klamm.client.config import Address, ClientConfig
from klamm.client.errors import ConnectionFailed
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse
from klamm.protocol.schema.metadata_request import MetadataRequest, MetadataRequestTopic
from klamm.protocol.schema.metadata_response import MetadataResponse
from klamm.protocol.types import BrokerId, TopicPartition

__all__ = ["ClusterClient"]


class ClusterClient(Client):
    """One client's view of the cluster, and a connection to each broker that it needs."""

    has_one_broker = False

    def __init__(self, network: Network, config: ClientConfig, ceilings: Mapping[int, int]) -> None:
        super().__init__(network, config, ceilings)
        self._connections: dict[Address, ClientConnection] = {}
        self._coordinators: dict[Coordinator, Address] = {}
        self._doubted: set[TopicPartition] = set()
        """Partitions whose leader did not answer, or does not lead any more."""

    async def connection(self, to: Destination | None = None) -> ClientConnection:
        if isinstance(to, Leader):
            return await self._to_leader(to.where)
        if isinstance(to, Coordinator):
            return await self._to_coordinator(to)
        return await self._to_any()

    async def connections(
        self, wheres: Collection[TopicPartition]
    ) -> list[tuple[ClientConnection, Collection[TopicPartition]]]:
        """Returns a connection to one of the leaders, with its partitions.

        The others have their turn at another time.
        """
        by_address: dict[Address, list[TopicPartition]] = {}
        for where in wheres:
            leader = self.leader_of(where)
            if leader is None:
                self._doubted.add(where)
            else:
                by_address.setdefault(self.address_of(leader.broker), []).append(where)
        if self._doubted.intersection(wheres):
            await self._look_for_leaders({where.topic for where in wheres})
        if not by_address:
            raise ConnectionFailed("no partition has a leader")
        address = random.choice(sorted(by_address))
        try:
            return [(await self._open(address), by_address[address])]
        except ConnectionFailed:
            self._doubted.update(by_address[address])
            raise

    def forget(self, to: Destination | None) -> None:
        if isinstance(to, Leader):
            self._doubted.add(to.where)
        elif isinstance(to, Coordinator):
            self._coordinators.pop(to, None)

    def disconnect(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def _open(self, address: Address) -> ClientConnection:
        connection = self._connections.get(address)
        if connection is None or connection.is_closed:
            connection = self._connections[address] = self._connect(address)
            await connection.open()
        return connection

    async def _to_any(self) -> ClientConnection:
        return await self._open(random.choice(self.config.bootstrap_servers))

    async def _connection_to(self, broker: BrokerId | None) -> ClientConnection:
        return await (self._to_any() if broker is None else self._open(self.address_of(broker)))

    async def _to_leader(self, where: TopicPartition) -> ClientConnection:
        if where in self._doubted or self.leader_of(where) is None:
            await self._look_for_leaders({where.topic})
        leader = self.leader_of(where)
        if leader is None:
            raise ConnectionFailed(f"{where} has no leader")
        return await self._open(self.address_of(leader.broker))

    async def _look_for_leaders(self, topics: Collection[str]) -> None:
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in sorted(topics)], allow_auto_topic_creation=False
        )
        answer = await (await self._to_any()).ask(request, MetadataResponse)
        self.apply(answer, topics)
        self._doubted -= {where for where in self._doubted if where.topic in topics}

    async def _to_coordinator(self, to: Coordinator) -> ClientConnection:
        address = self._coordinators.get(to)
        if address is None:
            request = FindCoordinatorRequest(key_type=to.key_type, coordinator_keys=[to.key])
            answer = await (await self._to_any()).ask(request, FindCoordinatorResponse)
            found = answer.coordinators[0]
            code = error_code(found.error_code)
            if code is not ErrorCode.NONE:
                raise ConnectionFailed(f"the coordinator of {to.key} is not known: {code.name}")
            address = self._coordinators[to] = (found.host, found.port)
        try:
            return await self._open(address)
        except ConnectionFailed:
            self._coordinators.pop(to, None)
            raise
