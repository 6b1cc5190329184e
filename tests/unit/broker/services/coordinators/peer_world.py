"""Broker 1 with two other brokers, whose answers the test gives, for tests of what brokers ask each other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from klamm.broker.services.peers.peers import PeerConnection, Peers
from klamm.client.config import Address
from klamm.client.errors import ConnectionFailed
from klamm.metadata.image import BrokerImage, Endpoint, MetadataImage, PartitionImage, TopicImage
from klamm.protocol.message import Message
from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex, TopicId

__all__ = ["OWN", "PeerWorld", "settle"]

OWN = BrokerId(1)

Answer = Callable[[int, Message], Message | None]
"""Answers a request to a broker; None: the connection breaks."""


class PeerWorld:
    """The metadata, and the peers of broker 1. Brokers 2 and 3 answer with `answer`."""

    def __init__(self, leaders: Mapping[str, Sequence[int]]) -> None:
        """Creates topics whose partitions have these leaders. All brokers are live."""
        self.requests: list[tuple[int, Message]] = []
        self.answer: Answer = lambda broker_id, request: None
        self.subscribers: list[Callable[[MetadataImage, MetadataImage], None]] = []
        self._revision = 0
        self.image = self._make(leaders, (1, 2, 3))
        self.peers = Peers(OWN, "PLAINTEXT", lambda: self.image, self._open, client_id="test")
        self.subscribers.append(self.peers.on_metadata_update)
        self._tasks: list[asyncio.Task[None]] = []

    def show(self, leaders: Mapping[str, Sequence[int]], live: Sequence[int] = (1, 2, 3)) -> None:
        """Changes the metadata."""
        old, self.image = self.image, self._make(leaders, live)
        for subscriber in self.subscribers:
            subscriber(old, self.image)

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Implements `Spawn`."""
        self._tasks.append(asyncio.ensure_future(coroutine))

    def _make(self, leaders: Mapping[str, Sequence[int]], live: Sequence[int]) -> MetadataImage:
        self._revision += 1
        brokers = {
            BrokerId(each): BrokerImage(
                BrokerId(each), "h", each, None, each, {"PLAINTEXT": Endpoint("h", each)}, "run"
            )
            for each in (1, 2, 3)
        }
        topics = {
            name: TopicImage(
                name,
                TopicId(name.encode().ljust(16)[:16]),
                tuple(
                    PartitionImage(PartitionIndex(index), BrokerId(leader), LeaderEpoch(0), (BrokerId(leader),), ())
                    for index, leader in enumerate(each)
                ),
            )
            for name, each in leaders.items()
        }
        return MetadataImage(
            revision=self._revision,
            topics=topics,
            brokers={each: brokers[BrokerId(each)] for each in map(BrokerId, live)},
            registrations=brokers,
        )

    async def _open(self, address: Address, client_id: str, /) -> PeerConnection:
        return _Connection(self, address[1])


class _Connection:
    def __init__(self, world: PeerWorld, broker_id: int) -> None:
        self.is_closed = False
        self._world = world
        self._broker_id = broker_id

    async def request(self, request: Message, answer: type[Any], /) -> Any:
        self._world.requests.append((self._broker_id, request))
        response = self._world.answer(self._broker_id, request)
        if response is None:
            raise ConnectionFailed("cut")
        assert isinstance(response, answer)
        return response

    def close(self) -> None:
        self.is_closed = True


async def settle() -> None:
    """Lets all tasks run until they wait for the test."""
    for _ in range(20):
        await asyncio.sleep(0)
