"""Faults that strike at the moments at which replication may lose records: when a replica joins the in-sync replicas,
when a leader begins, and when `min.insync.replicas` is lowered.

Faults at random moments rarely meet such a moment, because it lasts for some milliseconds. So an ambush waits for it in
the metadata store. Then it cuts the followers concerned off from the leader, and kills the leader a little later: the
next leader has exactly what it held at that moment.

A kill takes no record away. But a replica that loses unsynced records in a power failure counts as in sync until its
session has ended. If the leader is killed before that, the replica may be elected. So no leader is killed until a
broker that has lost power serves again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from tests.simulation.logs.device import Strike

from klamm.metadata.entries import apply
from klamm.metadata.image import EMPTY_IMAGE, NO_BROKER, MetadataImage, PartitionImage
from klamm.metadata.metadata_store import Versioned
from klamm.protocol.types import BrokerId, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.brokers.asyncio_loop import ProcessLoop
    from tests.simulation.clusters.replicated import ReplicaWorld

__all__ = ["Ambushes"]

_MOST: Final = 4
"""Number of ambushes in a world."""
_JOIN_CHANCE: Final = 0.4
_LEADER_CHANCE: Final = 0.3
_LOWER_CHANCE: Final = 0.3
_POWER_CHANCE: Final = 0.15
_BACK_MS: Final = 5.0
_KILL_AFTER_MS: Final = (5, 30, 100)
_MARGIN_MS: Final = 60
"""From the time at which followers lag to their removal from the in-sync replicas."""


class Ambushes:
    """The ambushes of a world."""

    def __init__(self, world: ReplicaWorld) -> None:
        self._world = world
        self._image: MetadataImage = EMPTY_IMAGE
        self._left = _MOST
        self._is_busy = False
        self._back: BrokerId | None = None
        """The broker that comes back after an ambush has taken its power."""

    @property
    def is_busy(self) -> bool:
        """Whether a leader is about to be killed."""
        return self._is_busy

    def written(self, revision: int, entries: Mapping[str, Versioned | None]) -> None:
        """Looks at a commit of the metadata store."""
        before, self._image = self._image, apply(self._image, revision, entries)
        for where in self._world.partitions:
            old, new = _partition(before, where), _partition(self._image, where)
            if old is None or new is None or old is new or new.leader == NO_BROKER:
                continue
            joined = set(new.isr) - set(old.isr)
            if new.leader_epoch != old.leader_epoch:
                self._consider(where, new, set(new.isr) - {new.leader}, _LEADER_CHANCE)
            elif joined:
                self._consider(where, new, joined, 1.0 if self._back in joined else _JOIN_CHANCE)

    def _consider(self, where: TopicPartition, partition: PartitionImage, cut: set[BrokerId], chance: float) -> None:
        world = self._world
        if not cut or not self._may_begin(partition.leader) or not world.loop.chance(chance):
            return
        self._begin(partition.leader, cut)
        world.notes.add("the leader of %s, broker %d, is ambushed", str(where), partition.leader)
        world.notes.add("brokers %s do not reach broker %d", sorted(cut), partition.leader)
        if world.loop.chance(0.5):
            world.break_watch(partition.leader, 150)
        self._kill_later(partition.leader, world.loop.random.choice(_KILL_AFTER_MS))

    def lower(self) -> None:
        """Cuts a leader off from its followers until they leave the in-sync replicas, lets the administrator lower
        `min.insync.replicas`, and kills the leader."""
        world = self._world
        where = world.loop.random.choice(world.partitions)
        partition = _partition(self._image, where)
        if partition is None or not self._may_begin(partition.leader) or not world.loop.chance(_LOWER_CHANCE):
            return
        administrator = world.administrator
        assert administrator is not None
        self._begin(partition.leader, set(partition.isr) - {partition.leader})
        world.notes.add("broker %d is to lead %s alone", partition.leader, str(where))
        alone_ms = world.max_lag_ms + _MARGIN_MS
        world.loop.call_later(alone_ms, partial(administrator.lowered.append, where.topic))
        self._kill_later(partition.leader, alone_ms + world.loop.random.choice((100, 200, 300)))

    def take_power(self) -> None:
        """Takes the power of a broker that comes back at once: a leader may still remember what the broker held."""
        world = self._world
        if self._is_busy or not world.loop.chance(_POWER_CHANCE):
            return
        serving = [number for number, machine in world.machines.items() if machine.is_serving]
        self._back = world.loop.random.choice(serving)
        world.die(self._back, Strike.POWER)
        world.come_back(self._back, _BACK_MS)

    def _may_begin(self, leader: BrokerId) -> bool:
        world = self._world
        if self._is_busy or not self._left or world.has_healed or leader == NO_BROKER or world.lacks_power:
            return False
        return world.machines[leader].is_serving and not world.is_stopping(leader)

    def _begin(self, leader: BrokerId, cut: Collection[BrokerId]) -> None:
        self._left -= 1
        self._is_busy = True
        world = self._world
        for number in sorted(cut):
            loop = world.machines[number].loop
            if loop is not None:
                # The commit is still being written.
                world.loop.call_later(0, partial(world.network.cut, loop, world.machines[leader].address))

    def _kill_later(self, leader: BrokerId, after_ms: float) -> None:
        self._world.loop.call_later(after_ms, partial(self._kill, leader, self._world.machines[leader].loop))

    def _kill(self, leader: BrokerId, loop: ProcessLoop | None) -> None:
        world = self._world
        machine = world.machines[leader]
        if machine.is_alive and machine.loop is loop and not world.has_healed:
            world.die(leader, Strike.KILL)
        self._is_busy = False
        for cut in [each for each in world.network.cuts if each[1] == machine.address]:
            world.network.cuts.discard(cut)


def _partition(image: MetadataImage, where: TopicPartition) -> PartitionImage | None:
    topic = image.topics.get(where.topic)
    return None if topic is None else topic.partitions[where.partition]
