"""A consumer that reads from followers, too (KIP-392)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from tests.simulation.brokers.clients.reader import Reader

from klamm.protocol.types import TopicPartition

if TYPE_CHECKING:
    from tests.simulation.brokers.clients.client import ClientConnection

__all__ = ["FollowerReader"]


class FollowerReader(Reader):
    """A consumer that asks any broker for some partitions: a leader, a follower, or a broker without a replica.

    It must see the records that a reader of leaders sees. A follower may lag, and refuse an offset that it has not
    copied yet.
    """

    def ceilings(self) -> dict[int, int]:
        # Followers serve consumers from version 11 on.
        return {key: max(version, 11) for key, version in super().ceilings().items()}

    async def connections(self) -> list[tuple[ClientConnection, Collection[TopicPartition]]]:
        if self.random.random() < 0.4:
            return await super().connections()
        wheres = [where for where in self.positions if self.random.random() < 0.7]
        return [(await self.client.connection(), wheres)] if wheres else []

    def check_epoch(self, where: TopicPartition, epoch: int, newest: int) -> None:
        """Checks nothing: a follower may answer in an epoch that is over, until it hears of the next one."""
