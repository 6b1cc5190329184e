"""How many members a group needs, for whoever scales it (an autoscaler, or a person who reads a description).

It is found out in steps, for a group may read very many partitions and a broker has others to answer meanwhile.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Generator, Sequence
from heapq import merge
from typing import Final

__all__ = ["members_needed"]

_PARTITIONS_AT_ONCE: Final = 1000
"""So many are packed in one step: about a millisecond."""


def members_needed(
    arrival_rates: Sequence[float],
    lags: Sequence[int],
    consumption_rate: float,
    target_lag: float,
    target_ms: float,
) -> Generator[None, None, int | None]:
    """The members with which the group's lag comes down to `target_lag` records within `target_ms`, and stays there.

    `arrival_rates` (records a second) and `lags` (records) are those of all partitions that the group reads, of a group
    of either protocol; they must stay as they are between the steps. `consumption_rate` is how many records a second
    one member gets through when it does not wait for records. Partitions are whole: members are
    counted by packing partitions, the largest first, into what one member manages, each time where it fits most
    tightly, which takes at most 11/9 of the fewest possible, plus one. A partition that is too much for any member
    gets one of its own, since a group cannot do better. At least 1 where there are partitions, 0 without; None where
    the rate is not known (0 or less).
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
