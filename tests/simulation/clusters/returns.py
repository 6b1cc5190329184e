"""An ambush of unclean elections: an eligible replica comes back between the decision and its arrival.

The moment is rare. The replica must have looked at its partitions before the leader fails, or its start changes the
partition, and the election is decided again anyway. So the ambush waits for the registration of an eligible replica.
It kills the leader, which is in sync alone, and holds the registration until another broker has decided the election.
The election arrives once the replica is live.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from tests.simulation.clusters.ambushes import changed_by
from tests.simulation.logs.device import Strike

from klamm.metadata.entries import live_key
from klamm.metadata.image import NO_BROKER, PartitionImage
from klamm.metadata.metadata_store import Change
from klamm.protocol.types import BrokerId, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.clusters.metadata_store import Session
    from tests.simulation.clusters.replicated import ReplicaWorld

__all__ = ["Returns"]

_MOST: Final = 2
_CHANCE: Final = 0.5
_PATIENCE_MS: Final = 100.0
_LEADER_BACK_MS: Final = 300.0


class Returns:
    """The ambushes of this kind in a world with unclean elections."""

    def __init__(self, world: ReplicaWorld, draw: Random) -> None:
        self._world = world
        self._draw = draw
        self._left = _MOST
        self._where: TopicPartition | None = None
        self._returning = NO_BROKER
        self._is_decided = False
        self._until_ms = 0.0

    def sent(self, session: Session, changes: Sequence[Change]) -> Callable[[], bool] | None:
        """Looks at a transaction that a broker sends, and returns a function that tells whether it may arrive."""
        if self._world.loop.now_ms >= self._until_ms:
            return self._begin(changes)
        for where, old, new in changed_by(self._world.checks.image, changes):
            if where == self._where and new.leader not in (NO_BROKER, old.leader) and new.is_recovering:
                self._is_decided = True
                return partial(self._is_over, lambda: self._returning in self._world.checks.image.live)
        return None

    def _begin(self, changes: Sequence[Change]) -> Callable[[], bool] | None:
        world = self._world
        written = {change.key for change in changes if change.value is not None}
        returning = next((number for number in world.machines if live_key(number) in written), None)
        if returning is None or not self._left or returning in world.checks.image.live:
            return None
        for where in world.partitions:
            partition = self._partition(where)
            if partition is None or not self._is_worth_it(partition, returning):
                continue
            if self._draw.random() >= _CHANCE:
                return None
            self._left -= 1
            self._where, self._returning, self._is_decided = where, returning, False
            self._until_ms = world.loop.now_ms + _PATIENCE_MS
            world.notes.add("broker %d returns while another one is elected for %s", returning, str(where))
            world.loop.call_later(0, partial(self._kill, partition.leader))
            return partial(self._is_over, lambda: self._is_decided)
        return None

    def _is_worth_it(self, partition: PartitionImage, returning: BrokerId) -> bool:
        """Returns whether the leader is in sync alone, the returning replica is eligible, and another one is live."""
        leader, live = partition.leader, self._world.checks.image.live
        others = set(partition.replicas) - {leader, returning}
        is_alone = partition.isr == (leader,) and returning in partition.elr
        return is_alone and not others.isdisjoint(live) and self._world.ambushes.is_calm(leader)

    def _is_over(self, is_due: Callable[[], bool]) -> bool:
        return is_due() or self._world.loop.now_ms >= self._until_ms

    def _kill(self, leader: BrokerId) -> None:
        if self._world.machines[leader].is_alive and not self._world.has_healed:
            self._world.die(leader, Strike.KILL)
            self._world.come_back(leader, _LEADER_BACK_MS)

    def _partition(self, where: TopicPartition) -> PartitionImage | None:
        topic = self._world.checks.image.topics.get(where.topic)
        return None if topic is None else topic.partitions[where.partition]
