"""Plans an even use of the brokers. A pure function: the same cluster gives the same plan.

Each step makes one of these better, and none before it in this list worse:

1. the racks that have a replica of a partition,
2. the number of replicas on each broker,
3. the bytes on each broker, if two brokers differ by more than a tenth of the average,
4. the number of partitions that prefer each broker as leader; such a step only reorders replicas and copies nothing.

Each step lowers a sum of squares, or raises the number of racks, so the steps come to an end. Brokers that can get no
new replicas keep what they have and do not count.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from itertools import permutations

from klamm.insight.cluster.replica_layout import PartitionMove, ReplicaLayout
from klamm.insight.words import PartitionKey

__all__ = ["plan_balance"]

_TOLERANCE = 10
"""Bytes may differ by this part of the average, and an exchange must close at least this part of a difference."""
_NEIGHBOURS = 8
"""How many partitions of about the right size are tried for an exchange."""


def plan_balance(layout: ReplicaLayout) -> list[PartitionMove]:
    """Returns the moves to an even use of the brokers that can get new replicas. Empty if no move has a gain."""
    plan = _Plan(layout)
    while plan.widen() or plan.even_replicas() or plan.even_bytes():
        pass
    while plan.even_leaders():
        pass
    return layout.moves_to(plan.replicas)


class _Plan:
    """The replicas of all partitions as planned so far. Each method makes one step, and tells whether it found one."""

    def __init__(self, layout: ReplicaLayout) -> None:
        self.replicas = {key: list(brokers) for key, brokers in sorted(layout.replicas.items())}
        self._layout = layout
        self._targets = layout.targets
        self._held: dict[int, set[PartitionKey]] = {broker: set() for broker in self._targets}
        for key, brokers in self.replicas.items():
            for broker in brokers:
                if broker in self._held:
                    self._held[broker].add(key)
        self._bytes = {broker: sum(map(layout.size, keys)) for broker, keys in self._held.items()}
        self._narrow = [key for key in self.replicas if self._may_widen(key)]

    # Racks

    def widen(self) -> bool:
        """Moves a replica that shares its rack to a rack without a replica of the partition."""
        while self._narrow:
            key = self._narrow[-1]
            brokers = self.replicas[key]
            racks = [self._layout.rack(broker) for broker in brokers]
            shared = [each for each, rack in zip(brokers, racks, strict=True) if racks.count(rack) > 1]
            sources = [broker for broker in shared if broker in self._held]
            free = [broker for broker in self._targets if self._layout.rack(broker) not in racks]
            if sources and free:
                source = max(sources, key=lambda broker: (len(self._held[broker]), self._bytes[broker], -broker))
                self._move(key, source, min(free, key=self._load))
                return True
            self._narrow.pop()
        return False

    def _may_widen(self, key: PartitionKey) -> bool:
        return self._layout.spread(self.replicas[key]) < len(self.replicas[key])

    # Replicas and bytes

    def even_replicas(self) -> bool:
        """Moves a replica from a broker to another with at least two replicas less."""
        ordered = sorted(self._targets, key=self._load)
        for full in reversed(ordered):
            for empty in ordered:
                if len(self._held[full]) - len(self._held[empty]) < 2:
                    break
                keys = [key for key in self._held[full] if self._can_move(key, full, empty)]
                if keys:
                    ideal = max(0, self._bytes[full] - self._bytes[empty]) / 2
                    key = min(keys, key=lambda key: (abs(self._layout.size(key) - ideal), key))
                    self._move(key, full, empty)
                    return True
        return False

    def even_bytes(self) -> bool:
        """Exchanges a large replica of a broker for a smaller one of another broker."""
        if not self._targets:
            return False
        average = sum(self._bytes.values()) / len(self._targets)
        pairs = [
            (self._bytes[full] - self._bytes[empty], full, empty) for full, empty in permutations(self._targets, 2)
        ]
        for gap, full, empty in sorted(pairs, key=lambda pair: (-pair[0], pair[1:])):
            if gap * _TOLERANCE <= average:
                break
            exchange = self._exchange(full, empty, gap)
            if exchange is not None:
                large, small = exchange
                self._move(large, full, empty)
                self._move(small, empty, full)
                return True
        return False

    def _exchange(self, full: int, empty: int, gap: int) -> tuple[PartitionKey, PartitionKey] | None:
        """Returns the partitions of both brokers whose exchange leaves the smallest difference between the brokers."""
        smaller = sorted((self._layout.size(key), key) for key in self._held[empty] if key not in self._held[full])
        best: tuple[float, PartitionKey, PartitionKey] | None = None
        for large in sorted(self._held[full] - self._held[empty]):
            if not self._can_move(large, full, empty):
                continue
            size = self._layout.size(large)
            place = bisect_left(smaller, (max(0, size - gap // 2), ("", 0)))
            for other_size, small in smaller[max(0, place - _NEIGHBOURS) : place + _NEIGHBOURS]:
                shift = size - other_size
                if min(shift, gap - shift) * _TOLERANCE < gap or not self._can_move(small, empty, full):
                    continue
                candidate = (abs(gap / 2 - shift), large, small)
                best = candidate if best is None else min(best, candidate)
        return None if best is None else best[1:]

    def _load(self, broker: int) -> tuple[int, int, int]:
        return len(self._held[broker]), self._bytes[broker], broker

    def _can_move(self, key: PartitionKey, source: int, target: int) -> bool:
        brokers = self.replicas[key]
        moved = [target if broker == source else broker for broker in brokers]
        return target not in brokers and self._layout.spread(moved) >= self._layout.spread(brokers)

    def _move(self, key: PartitionKey, source: int, target: int) -> None:
        brokers = self.replicas[key]
        brokers[brokers.index(source)] = target
        size = self._layout.size(key)
        self._held[source].remove(key)
        self._held[target].add(key)
        self._bytes[source] -= size
        self._bytes[target] += size

    # Leaders

    def even_leaders(self) -> bool:
        """Makes other replicas the preferred leaders, so that a broker with many has one less, and one with few one
        more. In between, a broker may give one and get one."""
        led: dict[int, list[PartitionKey]] = {broker: [] for broker in self._targets}
        for key, brokers in self.replicas.items():
            if brokers[0] in led:
                led[brokers[0]].append(key)
        for start in sorted(led, key=lambda broker: (-len(led[broker]), broker)):
            steps = self._steps_to_fewer(led, start)
            for key, follower in steps:
                brokers = self.replicas[key]
                place = brokers.index(follower)
                brokers[0], brokers[place] = brokers[place], brokers[0]
            if steps:
                return True
        return False

    def _steps_to_fewer(self, led: dict[int, list[PartitionKey]], start: int) -> list[tuple[PartitionKey, int]]:
        """Returns the shortest chain of partitions with new leaders from `start` to a broker that leads at least two
        partitions less; empty if there is none."""
        reached: dict[int, tuple[PartitionKey, int] | None] = {start: None}
        waiting = deque([start])
        while waiting:
            broker = waiting.popleft()
            if len(led[start]) - len(led[broker]) >= 2:
                return self._chain(reached, broker)
            for key in led[broker]:
                for follower in self.replicas[key][1:]:
                    if follower in led and follower not in reached:
                        reached[follower] = (key, broker)
                        waiting.append(follower)
        return []

    @staticmethod
    def _chain(reached: dict[int, tuple[PartitionKey, int] | None], end: int) -> list[tuple[PartitionKey, int]]:
        steps = []
        broker = end
        while (step := reached[broker]) is not None:
            key, previous = step
            steps.append((key, broker))
            broker = previous
        return steps
