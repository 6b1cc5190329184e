"""How many members a group needs, for whoever scales it (an autoscaler, or a person who reads a description)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from klamm.core.group.assignors.contract import PartitionLoad

__all__ = ["members_needed"]


def members_needed(
    loads: Iterable[PartitionLoad], consumption_rate: float, target_lag: float, target_ms: float
) -> int | None:
    """The members with which the group's lag comes down to `target_lag` records within `target_ms`, and stays there.

    `loads` are those of all partitions that the group reads, of a group of either protocol; `consumption_rate` is how
    many records a second one member gets through when it does not wait for records. Partitions are whole: members are
    counted by packing partitions, the largest first, into what one member manages, each time where it fits most
    tightly, which takes at most 11/9 of the fewest possible, plus one. A partition that is too much for any member
    gets one of its own, since a group cannot do better. At least 1 where there are partitions, 0 without; None where
    the rate is not known (0 or less).
    """
    if consumption_rate <= 0:
        return None
    known = [(max(load.arrival_rate, 0.0), max(load.lag, 0)) for load in loads]
    lag = sum(each for _, each in known)
    excess = max(lag - target_lag, 0) / lag if lag else 0.0
    seconds = target_ms / 1000
    demands = sorted((rate + each * excess / seconds for rate, each in known if rate or each), reverse=True)
    full = 0
    room: list[float] = []
    for demand in demands:
        place = bisect_left(room, demand)
        left = room.pop(place) - demand if place < len(room) else consumption_rate - demand
        if left > 0:
            insort(room, left)
        else:
            full += 1
    return max(full + len(room), 1) if known else 0
