"""Where the replicas of all partitions are: the input and the result of the plans that move them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from klamm.insight.words import PartitionKey

__all__ = ["BrokerLoad", "PartitionMove", "ReplicaLayout"]

Rack = str | int


@dataclass(frozen=True, slots=True)
class PartitionMove:
    """New replicas of a partition, the preferred leader first."""

    key: PartitionKey
    before: tuple[int, ...]
    after: tuple[int, ...]
    size_bytes: int
    """The bytes of one replica."""

    @property
    def adding(self) -> tuple[int, ...]:
        """The brokers that get a replica."""
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def removing(self) -> tuple[int, ...]:
        """The brokers that lose their replica."""
        return tuple(broker for broker in self.before if broker not in self.after)

    @property
    def copied_bytes(self) -> int:
        """The bytes that are copied to other brokers."""
        return self.size_bytes * len(self.adding)


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """The places of one broker in all partitions."""

    replicas: int
    leaders: int
    """The partitions that prefer the broker as leader."""
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLayout:
    """The replicas of all partitions, and the brokers."""

    replicas: Mapping[PartitionKey, tuple[int, ...]]
    """The preferred leader first. Partitions that move now have the replicas that they move to."""
    sizes_bytes: Mapping[PartitionKey, int]
    """The bytes of one replica; 0 if a partition is missing."""
    racks: Mapping[int, str | None]
    """All brokers that are registered, with their racks."""
    closed: Collection[int] = ()
    """The brokers that can get no new replicas: cordoned ones, and those that are not live."""

    @property
    def targets(self) -> list[int]:
        """The brokers that can get new replicas, by id."""
        return sorted(broker for broker in self.racks if broker not in self.closed)

    def rack(self, broker: int) -> Rack:
        """Returns the rack of a broker. A broker without a rack is a rack of its own."""
        rack = self.racks.get(broker)
        return broker if rack is None else rack

    def spread(self, replicas: Sequence[int]) -> int:
        """Returns the number of racks that have one of the replicas."""
        return len({self.rack(broker) for broker in replicas})

    def size(self, key: PartitionKey) -> int:
        """Returns the bytes of one replica of a partition."""
        return self.sizes_bytes.get(key, 0)

    def after(self, moves: Collection[PartitionMove]) -> ReplicaLayout:
        """Returns the layout when these moves are done."""
        return replace(self, replicas={**self.replicas, **{move.key: move.after for move in moves}})

    def loads(self) -> dict[int, BrokerLoad]:
        """Returns the load of every registered broker, and of others that have replicas, by id."""
        replicas: Counter[int] = Counter()
        leaders: Counter[int] = Counter()
        sizes: Counter[int] = Counter()
        for key, brokers in self.replicas.items():
            leaders.update(brokers[:1])
            replicas.update(brokers)
            for broker in brokers:
                sizes[broker] += self.size(key)
        return {
            broker: BrokerLoad(replicas[broker], leaders[broker], sizes[broker])
            for broker in sorted(self.racks.keys() | replicas.keys())
        }

    def moves_to(self, wanted: Mapping[PartitionKey, Sequence[int]]) -> list[PartitionMove]:
        """Returns the moves from this layout to the wanted replicas, in the order of the partitions."""
        return [
            PartitionMove(key, before, tuple(wanted[key]), self.size(key))
            for key, before in sorted(self.replicas.items())
            if key in wanted and tuple(wanted[key]) != before
        ]
