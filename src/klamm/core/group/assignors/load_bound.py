"""The bound that the assignor `load` keeps: nobody carries more than the optimum plus the heaviest partition.

The optimum is the least that the heaviest member can carry in any assignment. It is at least the average, and that is
where the search begins: a member that carries more than `floor + heaviest partition` is overloaded, one that carries
at most `floor` has room. As long as someone is overloaded:

- If partitions can be handed on from it, from reader to reader, to a member with room, then it gives one to the next
  member on a shortest such way. Handing on never makes a way shorter, and each step brings a partition nearer to a
  member with room, so this ends.
- If no such way exists, look at all members to which partitions could be handed on from it. Each carries more than
  `floor`, and none of their partitions may go to anyone else, so the optimum is at least what they carry on average.
  That becomes the floor; it has risen, and never above the optimum.

After the push algorithm for restricted links of Gairing, Luecking, Mavronicolas and Monien ("Computing Nash equilibria
for scheduling on restricted parallel links", STOC 2004).
"""

from __future__ import annotations

from collections import deque

from klamm.core.group.assignors.load_balance import Balance, Movable

__all__ = ["keep_bound"]


def keep_bound(balance: Balance) -> bool:
    """Move what has to move until nobody is above the bound; returns whether anything did."""
    heaviest = max(balance.weights, default=0)
    floor = balance.average
    movable: Movable | None = None
    has_changed = False
    while balance.active:
        member = max(balance.active, key=lambda member: (balance.loads[member], -member))
        excess = balance.loads[member] - floor - heaviest
        if excess <= 0:
            break
        movable = movable or Movable(balance, range(len(balance.weights)))
        distances = _distances(balance, movable, floor)
        if member in distances:
            _hand_on(balance, movable, distances, member, excess)
            has_changed = True
        else:
            reached = _reached(balance, movable, member)
            floor = -(-sum(balance.loads[each] for each in reached) // len(reached))
    return has_changed


def _hand_on(balance: Balance, movable: Movable, distances: dict[int, int], member: int, excess: int) -> None:
    """Give a partition to the lightest of those who are next on a shortest way."""
    taker, kind = min(
        (
            (taker, kind)
            for kind in movable.kinds_of(member)
            for taker in balance.readers[kind]
            if distances.get(taker) == distances[member] - 1
        ),
        key=lambda way: (balance.loads[way[0]], way),
    )
    partition = movable.nearest(member, kind, excess, max(balance.weights), None)
    assert partition is not None
    movable.move(partition, taker)


def _distances(balance: Balance, movable: Movable, floor: int) -> dict[int, int]:
    """How many hands lead from each member to one with room; members from which there is no way are left out."""
    givers: dict[int, list[int]] = {}
    for member in balance.active:
        for kind in movable.kinds_of(member):
            givers.setdefault(kind, []).append(member)
    distances = {member: 0 for member in balance.active if balance.loads[member] <= floor}
    waiting = deque(distances)
    while waiting:
        member = waiting.popleft()
        for kind in balance.kinds_read[member]:
            # Whoever can give to one reader of the kind can give to all: the first one that comes by is the nearest.
            for giver in givers.pop(kind, ()):
                if giver not in distances:
                    distances[giver] = distances[member] + 1
                    waiting.append(giver)
    return distances


def _reached(balance: Balance, movable: Movable, member: int) -> set[int]:
    """All members to which partitions may be handed on from this one, itself included."""
    reached = {member}
    waiting = [member]
    kinds: set[int] = set()
    while waiting:
        for kind in movable.kinds_of(waiting.pop()):
            if kind not in kinds:
                kinds.add(kind)
                waiting += balance.readers[kind] - reached
                reached |= balance.readers[kind]
    return reached
