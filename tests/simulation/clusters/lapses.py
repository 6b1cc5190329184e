"""Situations in which a broker acts on what it knew earlier: a leader or a coordinator goes on after its session has
ended, because it has not heard of that, or a leader leads again and remembers an earlier leader epoch.

Each of them needs several events in a row within some milliseconds, which random faults and the other ambushes rarely
create. So some worlds create one of the three kinds on purpose, and no other fault strikes meanwhile.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from tests.simulation.clusters.detours import Detours

from klamm.metadata.image import NO_BROKER
from klamm.protocol.types import BrokerId, TopicPartition

if TYPE_CHECKING:
    from tests.simulation.clusters.replicated import ReplicaWorld

__all__ = ["COMMITS", "COORDINATES", "REMEMBERS", "Lapses"]

COMMITS: Final = "commits"
COORDINATES: Final = "coordinates"
REMEMBERS: Final = "remembers"

_MOST: Final = 3
_CHANCE: Final = 0.3
"""Probability of a situation at a look at the world, every few milliseconds, if it is possible."""
_ENOUGH_BROKERS: Final = 3
"""The number of brokers that serve: the one that goes on, and two that replicate."""
_LEASE_MS: Final = 400
_OUT_OF_REACH_MS: Final = 700
_UNHEARD_MS: Final = 200
"""How long the other brokers do not hear that the session of a leader has ended."""
_BEFORE_MS: Final = 5
_PAUSE_MS: Final = 1_000
_DETOUR_MS: Final = 1_500


class Lapses:
    """The situations of one kind in a world. `kind` is None for a world without them."""

    def __init__(self, world: ReplicaWorld, kind: str | None, draw: Random) -> None:
        self._world = world
        self._kind = kind
        self._draw = draw
        self._left = _MOST
        self._detours = Detours(world, draw)

    def strike(self) -> None:
        """Creates a situation if a leader may fail now, or does nothing."""
        create = {
            COMMITS: self._outlive_lease,
            COORDINATES: self._pause_coordinator,
            REMEMBERS: self._take_detour,
        }
        world = self._world
        if self._kind is None or not self._left or world.ambushes.is_under_way:
            return
        if sum(map(world.has_session, world.machines)) < _ENOUGH_BROKERS or world.metadata.is_out_of_reach():
            return  # No other broker would take over.
        if self._draw.random() < _CHANCE:
            create[self._kind]()

    def _leader(self) -> tuple[TopicPartition, BrokerId] | None:
        """Returns some partition with its leader; None if this leader may not fail now."""
        where = self._draw.choice(self._world.partitions)
        topic = self._world.checks.image.topics.get(where.topic)
        leader = NO_BROKER if topic is None else topic.partitions[where.partition].leader
        return (where, leader) if self._world.ambushes.is_calm(leader) else None

    def _begin(self, duration_ms: float) -> None:
        self._left -= 1
        self._world.ambushes.hold(duration_ms)

    def _outlive_lease(self) -> None:
        """Lets the session of a leader end. Neither the leader nor the followers hear of it for a while, so that they
        go on to replicate."""
        world, found = self._world, self._leader()
        if found is None or not world.is_in_order():
            return
        leader = found[1]
        self._begin(_OUT_OF_REACH_MS)
        world.cut_off(leader, _OUT_OF_REACH_MS, _LEASE_MS)
        for number in world.machines:
            if number != leader:
                world.loop.call_later(_LEASE_MS - _BEFORE_MS, partial(self._break_watch, number))

    def _take_detour(self) -> None:
        """Lets another broker lead a partition for a while, and the leader hears nothing of it."""
        found = self._leader()
        if found is not None and self._detours.begin(*found):
            self._begin(_DETOUR_MS)

    def _break_watch(self, number: BrokerId) -> None:
        if self._world.machines[number].is_alive:
            self._world.break_watch(number, _UNHEARD_MS)

    def _pause_coordinator(self) -> None:
        """Lets the coordinator of the committer stand still until another broker coordinates the group."""
        world = self._world
        coordinator = world.coordinator_of_committer()
        if coordinator is not None and world.has_committed_offsets and world.ambushes.is_calm(coordinator):
            self._begin(_PAUSE_MS)
            world.unlimited.pause_coordinator([coordinator])
