"""Weights of partitions, loads of members, and the moves that balance the loads.

Members and partitions are numbers here, in a fixed order, so that all choices are deterministic. Topics with the same
readers are of one kind: a partition of a kind may go to any reader of the kind.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

__all__ = ["NO_OWNER", "Balance", "Movable"]

NO_OWNER: Final = -1
_EQUALS_LOOKED_AT: Final = 16
_PER_MILLE: Final = 1000


class Balance:
    """The owner of each partition and the load of each member.

    `weights`, `kinds` and `racks` are indexed by partition, `readers` by kind, and `member_racks` by member. All
    weights are at least 1.
    """

    def __init__(
        self,
        weights: Sequence[int],
        kinds: Sequence[int],
        racks: Sequence[frozenset[str]],
        readers: Sequence[Sequence[int]],
        member_racks: Sequence[str | None],
    ) -> None:
        self.weights = weights
        self.kinds = kinds
        self.racks = racks
        self.readers = [frozenset(each) for each in readers]
        self.member_racks = member_racks
        self.loads = [0] * len(member_racks)
        self.owners = [NO_OWNER] * len(weights)
        self.kinds_read: list[list[int]] = [[] for _ in member_racks]
        """The kinds that each member reads."""
        for kind, members in enumerate(readers):
            for member in members:
                self.kinds_read[member].append(kind)
        self.active = [member for member, kinds_read in enumerate(self.kinds_read) if kinds_read]
        """The members that read at least one kind."""
        self.average = -(-sum(weights) // max(len(self.active), 1))
        """The average load of the active members, rounded up: in any assignment the heaviest load is at least this."""
        self._lightest: dict[tuple[int, str | None], list[tuple[int, int]]] = {}
        self._queues_of: list[list[list[tuple[int, int]]]] = [[] for _ in member_racks]
        used_racks = frozenset().union(*racks) if racks else frozenset()
        for kind, members in enumerate(readers):
            for member in members:
                self._enter(kind, None, member)
                if (rack := member_racks[member]) in used_racks:
                    self._enter(kind, rack, member)
        for queue in self._lightest.values():
            heapify(queue)

    def give(self, partition: int, member: int) -> None:
        """Makes the member the owner of the partition."""
        weight = self.weights[partition]
        owner = self.owners[partition]
        if owner != NO_OWNER:
            self._set_load(owner, self.loads[owner] - weight)
        self.owners[partition] = member
        self._set_load(member, self.loads[member] + weight)

    def lightest(self, kind: int, rack: str | None = None) -> int | None:
        """Returns the lightest reader of the kind, in the rack if one is given; None if there is no such reader."""
        queue = self._lightest.get((kind, rack))
        if queue is None:
            return None
        loads = self.loads
        while queue[0][0] != loads[queue[0][1]]:
            heappop(queue)
        return queue[0][1]

    def place(self, partition: int, favourite: int | None) -> None:
        """Gives a partition without an owner to the lightest reader.

        A favourite, or else the lightest reader in a rack of the partition's replicas, is preferred if it is as light,
        or if its load afterwards does not exceed the average.
        """
        kind, weight = self.kinds[partition], self.weights[partition]
        chosen = self.lightest(kind)
        assert chosen is not None
        ceiling = max(self.average, self.loads[chosen] + weight)
        if favourite is not None and self.loads[favourite] + weight <= ceiling:
            self.give(partition, favourite)
            return
        near = [self.lightest(kind, rack) for rack in sorted(self.racks[partition])]
        in_rack = [(self.loads[member], member) for member in near if member is not None]
        if in_rack and min(in_rack)[0] + weight <= ceiling:
            chosen = min(in_rack)[1]
        self.give(partition, chosen)

    def improve(self, partitions: Iterable[int], per_mille: int, receivers: frozenset[int] | None = None) -> bool:
        """Moves or exchanges these partitions to balance the loads; returns whether anything moved.

        A move is worth it if the giver's load exceeds the taker's new load by more than `per_mille` of the latter. The
        heaviest member gives first, each time the partition that brings giver and taker nearest to the average, until
        no such move is left. With `receivers`, partitions move to these members only, and are not exchanged.
        """
        movable = Movable(self, partitions)
        has_changed = False
        while self._improve_once(movable, per_mille, receivers):
            has_changed = True
        return has_changed

    def _improve_once(self, movable: Movable, per_mille: int, receivers: frozenset[int] | None) -> bool:
        has_changed = False
        heaviest = [(-self.loads[member], member) for member in self.active]
        heapify(heaviest)
        while heaviest:
            load, member = heappop(heaviest)
            if -load != self.loads[member]:
                continue
            step = self._best_move(movable, member, per_mille, receivers)
            if step is None and receivers is None:
                step = self._best_exchange(movable, member, per_mille)
            if step is None:
                continue
            movable.move(step.partition, step.member)
            if step.returned != NO_OWNER:
                movable.move(step.returned, member)
            for changed in (member, step.member):
                heappush(heaviest, (-self.loads[changed], changed))
            has_changed = True
        return has_changed

    def is_worth_it(self, weight: int, giver: int, taker: int, per_mille: int) -> bool:
        """Returns whether the giver's load exceeds the taker's new load by more than `per_mille` of the latter."""
        return weight <= self._heaviest_worth_it(giver, taker, per_mille)

    def _heaviest_worth_it(self, giver: int, taker: int, per_mille: int) -> int:
        return (self.loads[giver] * _PER_MILLE - 1) // (_PER_MILLE + per_mille) - self.loads[taker]

    def _wanted(self, giver: int, taker: int, per_mille: int) -> int:
        """Returns the best weight to move, chosen so that few partitions move.

        The weight brings the taker up to the average, or the giver as far below the average as still counts as even;
        the smaller of the two weights counts. If one of the two is not positive, the weight is half the difference of
        the loads.
        """
        over = self.loads[giver] - self.average * _PER_MILLE // (_PER_MILLE + per_mille)
        under = self.average - self.loads[taker]
        return min(over, under) if over > 0 and under > 0 else (self.loads[giver] - self.loads[taker]) // 2

    def _takers(self, movable: Movable, giver: int, receivers: frozenset[int] | None) -> Iterator[tuple[int, int]]:
        for kind in movable.kinds_of(giver):
            if receivers is None:
                lightest = self.lightest(kind)
            else:
                readers = sorted(receivers & self.readers[kind])
                lightest = min(readers, key=lambda member: self.loads[member], default=None)
            if lightest is not None and lightest != giver:
                yield kind, lightest

    def _best_move(
        self, movable: Movable, giver: int, per_mille: int, receivers: frozenset[int] | None
    ) -> _Step | None:
        best: _Step | None = None
        for kind, taker in self._takers(movable, giver, receivers):
            limit = self._heaviest_worth_it(giver, taker, per_mille)
            wanted = self._wanted(giver, taker, per_mille)
            partition = movable.nearest(giver, kind, min(wanted, limit), limit, self.member_racks[taker])
            if partition is not None:
                step = _Step(abs(self.weights[partition] - wanted), partition, taker, NO_OWNER)
                best = step if best is None else min(best, step)
        return best

    def _best_exchange(self, movable: Movable, giver: int, per_mille: int) -> _Step | None:
        best: _Step | None = None
        for kind, taker in self._takers(movable, giver, None):
            limit = self._heaviest_worth_it(giver, taker, per_mille)
            wanted = self._wanted(giver, taker, per_mille)
            least = max((self.loads[giver] - self.loads[taker]) // 4, 1)
            for back in movable.kinds_of(taker):
                if giver not in self.readers[back]:
                    continue
                for weight, partition in movable.of(giver, kind):
                    other = movable.nearest(taker, back, max(weight - wanted, 1), weight - least, None)
                    if other is None or weight - self.weights[other] > limit:
                        continue
                    step = _Step(abs(weight - self.weights[other] - wanted), partition, taker, other)
                    best = step if best is None else min(best, step)
        return best

    def _enter(self, kind: int, rack: str | None, member: int) -> None:
        queue = self._lightest.setdefault((kind, rack), [])
        queue.append((0, member))
        self._queues_of[member].append(queue)

    def _set_load(self, member: int, load: int) -> None:
        self.loads[member] = load
        for queue in self._queues_of[member]:
            heappush(queue, (load, member))


class _Step(NamedTuple):
    """A move, or an exchange of two partitions; the smallest tuple is the best."""

    miss: int
    """The distance from the best weight (`_wanted`)."""
    partition: int
    member: int
    """The new owner of `partition`."""
    returned: int
    """The partition given back in exchange, or NO_OWNER."""


class Movable:
    """The partitions that may move, by owner and kind, the lightest first."""

    def __init__(self, balance: Balance, partitions: Iterable[int]) -> None:
        self._balance = balance
        self._of: list[dict[int, list[tuple[int, int]]]] = [{} for _ in balance.loads]
        for partition in partitions:
            mine = self._of[balance.owners[partition]]
            mine.setdefault(balance.kinds[partition], []).append((balance.weights[partition], partition))
        for mine in self._of:
            for entries in mine.values():
                entries.sort()

    def kinds_of(self, member: int) -> list[int]:
        """Returns the kinds of which the member has a movable partition."""
        return sorted(kind for kind, entries in self._of[member].items() if entries)

    def of(self, member: int, kind: int) -> Sequence[tuple[int, int]]:
        """Returns the member's movable partitions of the kind, as pairs of weight and partition."""
        return self._of[member][kind]

    def nearest(self, member: int, kind: int, wanted: int, limit: int, rack: str | None) -> int | None:
        """Returns the member's partition of the kind whose weight is nearest to `wanted` and at most `limit`.

        Among partitions of equal weight, one with a replica in the rack is preferred.
        """
        entries = self._of[member][kind]
        end = bisect_right(entries, (limit, len(self._balance.weights)))
        if end == 0:
            return None
        place = min(bisect_left(entries, (wanted, NO_OWNER)), end - 1)
        if place > 0 and wanted - entries[place - 1][0] < entries[place][0] - wanted:
            place -= 1
        weight, chosen = entries[place]
        if rack is None:
            return chosen
        place = bisect_left(entries, (weight, NO_OWNER))
        for other, partition in entries[place : place + _EQUALS_LOOKED_AT]:
            if other == weight and rack in self._balance.racks[partition]:
                return partition
        return chosen

    def move(self, partition: int, member: int) -> None:
        """Gives the partition to the member; the partition may move again."""
        balance = self._balance
        entry = (balance.weights[partition], partition)
        kind = balance.kinds[partition]
        entries = self._of[balance.owners[partition]][kind]
        del entries[bisect_left(entries, entry)]
        insort(self._of[member].setdefault(kind, []), entry)
        balance.give(partition, member)
