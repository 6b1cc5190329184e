"""Calculates how many members a group needs, for an autoscaler or for a person who reads a group's description.

The calculation runs in steps, because a group may read very many partitions and the broker has to answer other requests
meanwhile.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Generator, Sequence
from heapq import merge
from typing import Final

__all__ = ["members_needed"]

_PARTITIONS_AT_ONCE: Final = 1000
"""How many partitions one step packs: about a millisecond."""


def members_needed(
    arrival_rates: Sequence[float],
    lags: Sequence[int],
    consumption_rate: float,
    target_lag: float,
    target_ms: float,
) -> Generator[None, None, int | None]:
    """Returns the number of members that reduce the group's lag to `target_lag` records within `target_ms`.

    `arrival_rates` (records a second) and `lags` (records) cover all partitions that a group of either protocol reads;
    they must not change between the steps. `consumption_rate` is how many records a second one member processes when it
    does not wait for records. A partition cannot be split. Members are counted by packing the partitions, the largest
    first, into members of that rate, each time where it fits most tightly. This takes at most 11/9 of the fewest
    possible members, plus one. A partition that exceeds the rate of a member gets its own member, since a group cannot
    do better. The result is at least 1 with partitions and 0 without; None if the rate is not known (0 or less).
    """
    if consumption_rate <= 0:
        return None
    lag = sum(each for each in lags if each > 0)
    excess = max(lag - target_lag, 0) / lag if lag else 0.0
    seconds = target_ms / 1000
    sorted_parts: list[list[float]] = []
    for start in range(0, len(lags), _PARTITIONS_AT_ONCE):
        end = start + _PARTITIONS_AT_ONCE
        demands = [
            max(rate, 0.0) + max(each, 0) * excess / seconds
            for rate, each in zip(arrival_rates[start:end], lags[start:end], strict=True)
            if rate > 0 or each > 0
        ]
        sorted_parts.append(sorted(demands, reverse=True))
        if end < len(lags):
            yield
    full = 0
    room: list[float] = []
    for count, demand in enumerate(merge(*sorted_parts, reverse=True), 1):
        place = bisect_left(room, demand)
        left = room.pop(place) - demand if place < len(room) else consumption_rate - demand
        if left > 0:
            insort(room, left)
        else:
            full += 1
        if count % _PARTITIONS_AT_ONCE == 0:
            yield
    return max(full + len(room), 1) if lags else 0
