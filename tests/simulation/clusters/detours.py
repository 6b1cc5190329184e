"""A leader that leads again without having heard that another broker led meanwhile.

A partition takes a detour: its leader loses the leadership to a replica that lacks the last records, and gets it back
when that replica fails. Its other follower has truncated its log meanwhile. A leader that remembers what the follower
held in the earlier leader epoch would commit records that the follower lacks. The steps must follow each other within
some hundred milliseconds, and none of them occurs by chance in this order.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.simulation.logs.device import Strike

from klamm.metadata.image import PartitionImage
from klamm.protocol.types import BrokerId, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.clusters.replicated import ReplicaWorld

    from klamm.storage.log.log import Log

__all__ = ["SHORTEST_LAG_MS", "Detours"]

SHORTEST_LAG_MS: Final = 300
"""The follower that gets no records for a while must not leave the in-sync replicas."""
_REPLICAS: Final = 3
_LOOK_MS: Final = 2.0
_LONGEST_MS: Final = 900.0
_UNAWARE_MS: Final = 1_000
"""How long the leader does not hear of the other one."""
_AWAY_MS: Final = 500.0


class _Detour(NamedTuple):
    """The brokers of one detour, and when it is given up."""

    where: TopicPartition
    leader: BrokerId
    other: BrokerId
    """The replica that leads meanwhile."""
    follower: BrokerId
    until_ms: float


class Detours:
    """The detours of a world, one after the other."""

    def __init__(self, world: ReplicaWorld, draw: Random) -> None:
        self._world = world
        self._draw = draw

    def begin(self, where: TopicPartition, leader: BrokerId) -> bool:
        """Begins a detour of a partition with all replicas in sync; returns False if it can't take one now."""
        world = self._world
        partition = self._partition(where)
        if partition is None or world.administrator is None or len(partition.isr) < _REPLICAS:
            return False
        other, follower = self._draw.sample([each for each in partition.isr if each != leader], 2)
        others = [number for number in world.machines if number not in (leader, other) and world.has_session(number)]
        if min(others, default=leader) >= leader:
            return False  # The lowest broker elects leaders, so this one would hear of the election.
        world.notes.add("%s is to be led by broker %d for a while, and broker %d is unaware", str(where), other, leader)
        world.administrator.assigned.append((where, [other, leader, follower]))
        self._go_on(_Detour(where, leader, other, follower, world.loop.now_ms + _LONGEST_MS), 0)
        return True

    def _go_on(self, detour: _Detour, step: int) -> None:
        """Takes the next step if its time has come, and looks again a little later."""
        world = self._world
        brokers = (detour.leader, detour.other, detour.follower)
        is_late = world.loop.now_ms >= detour.until_ms or world.has_healed
        if is_late or not all(map(world.has_session, brokers)):
            self._connect(detour)
            return
        steps = (self._separate, self._elect, self._connect_if_elected, self._fail_if_followed)
        if steps[step](detour):
            step += 1
        if step < len(steps):
            world.loop.call_later(_LOOK_MS, partial(self._go_on, detour, step))

    def _separate(self, detour: _Detour) -> bool:
        partition = self._partition(detour.where)
        if partition is None or partition.replicas != (detour.other, detour.leader, detour.follower):
            return False
        machine = self._world.machines[detour.other]
        if machine.loop is not None:
            self._world.network.cut(machine.loop, self._world.machines[detour.leader].address)
        return True

    def _elect(self, detour: _Detour) -> bool:
        ahead, behind = self._log(detour.follower, detour), self._log(detour.other, detour)
        if ahead is None or behind is None or ahead.log_end_offset <= behind.log_end_offset:
            return False
        administrator = self._world.administrator
        assert administrator is not None
        self._world.break_watch(detour.leader, _UNAWARE_MS)
        administrator.elected.append(detour.where)
        return True

    def _connect_if_elected(self, detour: _Detour) -> bool:
        partition = self._partition(detour.where)
        if partition is None or partition.leader != detour.other:
            return False
        self._connect(detour)
        return True

    def _fail_if_followed(self, detour: _Detour) -> bool:
        """Ends the process of the other leader once the follower has truncated its log."""
        partition = self._partition(detour.where)
        behind, ahead = self._log(detour.other, detour), self._log(detour.follower, detour)
        if partition is None or behind is None or ahead is None or ahead.log_end_offset > behind.log_end_offset:
            return False
        self._world.die(detour.other, Strike.KILL)
        self._world.come_back(detour.other, _AWAY_MS)
        return True

    def _connect(self, detour: _Detour) -> None:
        address = self._world.machines[detour.leader].address
        loop = self._world.machines[detour.other].loop
        cuts = self._world.network.cuts
        cuts.difference_update([cut for cut in cuts if cut == (loop, address)])

    def _partition(self, where: TopicPartition) -> PartitionImage | None:
        topic = self._world.checks.image.topics.get(where.topic)
        return None if topic is None else topic.partitions[where.partition]

    def _log(self, number: BrokerId, detour: _Detour) -> Log | None:
        return self._world.machines[number].logs.get(detour.where)
