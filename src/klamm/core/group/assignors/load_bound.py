"""The bound that the assignor `load` keeps: no member's load exceeds the optimum plus the heaviest partition.

The optimum is the smallest possible heaviest load over all assignments. It is at least the average, with which `floor`
begins. A member with a load above `floor + heaviest partition` is overloaded; a member with a load of at most `floor`
has room. While there is an overloaded member:

- If partitions can be passed on from it, from reader to reader, to a member with room, it gives one to the next member
  on a shortest such path. Passing on never makes a path shorter, and each step brings a partition nearer to a member
  with room, so this ends.
- If there is no such path, consider all members to which its partitions could be passed on. Each has a load above
  `floor`, and none of their partitions may go to any other member, so the optimum is at least their average load. This
  average becomes the floor. So the floor rises, but never above the optimum.

After the push algorithm for restricted links of Gairing, Luecking, Mavronicolas and Monien ("Computing Nash equilibria
for scheduling on restricted parallel links", STOC 2004).
"""

from __future__ import annotations

from collections import deque

from klamm.core.group.assignors.load_balance import Balance, Movable

__all__ = ["keep_bound"]


def keep_bound(balance: Balance) -> bool:
    """Moves partitions until no member's load exceeds the bound; returns whether any moved."""
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
    """Gives a partition to the lightest member among the next ones on a shortest path."""
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
    """Returns the shortest path length from each member to one with room; members without a path are left out."""
    givers: dict[int, list[int]] = {}
    for member in balance.active:
        for kind in movable.kinds_of(member):
            givers.setdefault(kind, []).append(member)
    distances = {member: 0 for member in balance.active if balance.loads[member] <= floor}
    waiting = deque(distances)
    while waiting:
        member = waiting.popleft()
        for kind in balance.kinds_read[member]:
            # A member that can give to one reader of a kind can give to all; the first one found is the nearest.
            for giver in givers.pop(kind, ()):
                if giver not in distances:
                    distances[giver] = distances[member] + 1
                    waiting.append(giver)
    return distances


def _reached(balance: Balance, movable: Movable, member: int) -> set[int]:
    """Returns all members to which partitions may be passed on from this one, itself included."""
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
