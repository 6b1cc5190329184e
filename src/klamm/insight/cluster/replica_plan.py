"""Plans where the replicas of partitions go: which brokers, and which of them is the preferred leader.

A pure function of the present replicas: the same cluster gives the same plan. A replica moves only if it must: because
its broker is not among the targets, or because the partition is to have fewer replicas. A new replica goes to the
target with these properties, in this order: no replica of the partition in its rack, the fewest replicas, the fewest
preferred leaders if it is the first replica, the lowest id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from klamm.errors import KlammError
from klamm.insight.words import PartitionKey

__all__ = ["ImpossiblePlan", "plan_replicas"]


class ImpossiblePlan(KlammError):
    """There are too few brokers for the wanted number of replicas."""


def plan_replicas(
    present: Mapping[PartitionKey, Sequence[int]],
    chosen: Iterable[PartitionKey],
    targets: Mapping[int, str | None],
    replication_factor: int | None = None,
    *,
    down: Collection[int] = (),
    behind: Mapping[PartitionKey, Collection[int]] = MappingProxyType({}),
) -> dict[PartitionKey, tuple[int, ...]]:
    """Returns the new replicas of those chosen partitions whose replicas change, the preferred leader first.

    `present` has the replicas of all partitions of the cluster, whose number on each broker counts. `targets` are the
    brokers that may have replicas, with their racks. Targets that are `down` keep their replicas, and get no new
    ones. `behind` are the replicas that are not in sync: if a partition is to have fewer replicas, they go first.
    Without a replication factor, each partition keeps its own.

    Raises ImpossiblePlan if there are too few brokers for the replicas of a partition.
    """
    plan = _Plan(present, targets, down, behind)
    keys = sorted(set(chosen))
    for key in keys:
        plan.shrink(key, replication_factor or len(present[key]))
    for key in keys:
        plan.fill(key, replication_factor or len(present[key]))
    return {key: plan.replicas_of(key) for key in keys if plan.replicas_of(key) != tuple(present[key])}


class _Plan:
    """The replicas of all partitions, as planned so far. A place that has no broker yet is None."""

    def __init__(
        self,
        present: Mapping[PartitionKey, Sequence[int]],
        targets: Mapping[int, str | None],
        down: Collection[int],
        behind: Mapping[PartitionKey, Collection[int]],
    ) -> None:
        self._targets = targets
        self._down = down
        self._behind = behind
        self._places: dict[PartitionKey, list[int | None]] = {key: list(replicas) for key, replicas in present.items()}
        self._replicas = Counter(broker for replicas in present.values() for broker in replicas)
        self._leaders = Counter(replicas[0] for replicas in present.values() if replicas)

    def replicas_of(self, key: PartitionKey) -> tuple[int, ...]:
        """Returns the planned replicas."""
        return tuple(broker for broker in self._places[key] if broker is not None)

    def shrink(self, key: PartitionKey, wanted: int) -> None:
        """Takes the partition from brokers that are no targets, then from others, until `wanted` places are left.

        The preferred leader goes last, so that the leader stays if its broker is a target.
        """
        places = self._places[key]
        for place, broker in enumerate(places):
            if broker not in self._targets:
                self._put(key, place, None)
        while len(places) > wanted:
            self._leave(key, self._superfluous(key))

    def _superfluous(self, key: PartitionKey) -> int:
        """Returns the place to give up: one without a broker, else one that shares its rack, else the fullest broker's.

        A place on a broker that is down, or whose replica is not in sync, goes before others with a broker. The first
        place stays unless it has none, or such a one.
        """
        places = self._places[key]
        behind = self._behind.get(key, ())

        def badness(place: int) -> tuple[bool, bool, bool, bool, int, int]:
            broker = places[place]
            if broker is None:
                return True, False, False, False, 0, place
            others = {self._rack(other) for other in places if other not in (None, broker)}
            shares_rack = self._rack(broker) in others
            return False, broker in self._down, broker in behind, shares_rack, self._replicas[broker], place

        stays = places[0] is not None and places[0] not in self._down and places[0] not in behind
        return max(range(1 if stays else 0, len(places)), key=badness)

    def _leave(self, key: PartitionKey, place: int) -> None:
        self._put(key, place, None)
        del self._places[key][place]
        if place == 0 and (new_first := self._places[key][0]) is not None:
            self._leaders[new_first] += 1

    def fill(self, key: PartitionKey, wanted: int) -> None:
        """Gives a broker to each place, up to `wanted`. Raises ImpossiblePlan."""
        places = self._places[key]
        places += [None] * (wanted - len(places))
        for place in range(wanted):
            if places[place] is None:
                free = [broker for broker in self._targets if broker not in places and broker not in self._down]
                if not free:
                    raise ImpossiblePlan(
                        f"{key[0]}-{key[1]} is to have {wanted} replicas, and there are too few brokers for them"
                        f"{self._why_too_few()}"
                    )
                self._put(key, place, self._best(places, free, is_first=place == 0))

    def _why_too_few(self) -> str:
        """Returns the part of a refusal that names the targets that get no new replicas."""
        closed = sorted(broker for broker in self._targets if broker in self._down)
        if not closed:
            return ""
        brokers = f"broker {closed[0]} is" if len(closed) == 1 else f"brokers {', '.join(map(str, closed))} are"
        do = "does" if len(closed) == 1 else "do"
        return (
            f", because {brokers} cordoned or {do} not run; `klamm cluster decommission ID --cancel` ends the cordon "
            f"of a broker"
        )

    def _best(self, places: Collection[int | None], free: Collection[int], *, is_first: bool) -> int:
        racks = {self._rack(broker) for broker in places if broker is not None}
        return min(
            free,
            key=lambda broker: (
                self._rack(broker) in racks,
                self._replicas[broker],
                self._leaders[broker] if is_first else 0,
                broker,
            ),
        )

    def _rack(self, broker: int | None) -> str | int | None:
        """Returns the rack of a broker. A broker without a rack is a rack of its own."""
        rack = self._targets.get(broker) if broker is not None else None
        return broker if rack is None else rack

    def _put(self, key: PartitionKey, place: int, broker: int | None) -> None:
        places = self._places[key]
        old, places[place] = places[place], broker
        for each, change in ((old, -1), (broker, 1)):
            if each is not None:
                self._replicas[each] += change
                if place == 0:
                    self._leaders[each] += change
