"""Measures a group: its lag, its arrival rate, and how many members it needs.

A member's pace can be measured only while its group has lag. A group without lag reads as fast as records arrive, which
is only a lower bound of the pace. So the pace is measured in busy times, and a faster time without lag raises it. The
measurement compares the committed offsets of two looks, some seconds apart. The offset of a new partition is not
progress: if the number of partitions changed, the measurement starts again with this look.

A group may have committed for tens of thousands of partitions, so a look is taken in steps. Its figures then do not
belong to one exact moment; this does no harm, since they describe some seconds anyway.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Final, NamedTuple

from klamm.core.group.assignors.load_settings import LoadSettings
from klamm.core.group.assignors.members_needed import members_needed
from klamm.core.group.offsets.committed_offset import PartitionOffsets
from klamm.core.group.partition_traffic import Traffic
from klamm.protocol.types import Millis

__all__ = ["GroupFigures", "GroupMeter"]

_SHORTEST_LOOK_MS: Final = 1000
_POSITIONS_AT_ONCE: Final = 2000
"""How many partitions one step examines: about two milliseconds."""
_FORGOTTEN_AT_ONCE: Final = 1000
_NEW_SHARE: Final = 0.3
"""The weight of the latest busy time in the pace."""


class GroupFigures(NamedTuple):
    """The figures of one group at one moment, over all partitions with a committed offset."""

    group_id: str
    members: int
    lag: int
    """Records."""
    arrival_rate: float
    """Records a second."""
    pace: float | None
    """Records a second that one member processes; None until a busy time was measured."""
    members_needed: int | None
    """How many members reduce the lag to `klamm.consumer.assignor.load.target.lag` within `lag.drain.ms`, and keep it
    there; None while the pace is not known."""


class _Look(NamedTuple):
    at: Millis
    partitions: int
    """The number of partitions examined."""
    position: int
    """The sum of their committed offsets."""
    is_busy: bool
    pace: float | None


class GroupMeter:
    """Measures groups; keeps the last look at each group for comparison."""

    __slots__ = ("_looks",)

    def __init__(self) -> None:
        self._looks: dict[str, _Look] = {}

    def measure(
        self,
        group_id: str,
        members: int,
        offsets: Mapping[str, PartitionOffsets],
        traffic: Traffic,
        *,
        settings: LoadSettings,
        now: Millis,
    ) -> Generator[None, None, GroupFigures]:
        """Measures a group, in as many steps as its partitions need; partitions without traffic figures are left out.

        `offsets` may change between the steps, `traffic` must not.
        """
        # Two lists of numbers instead of one list of pairs, because the garbage collector has to visit every pair.
        rates: list[float] = []
        lags: list[int] = []
        position = looked_at = 0
        for topic, committed in list(offsets.items()):
            partitions = traffic.get(topic, ())
            is_large = len(committed) > _POSITIONS_AT_ONCE
            for index, offset in (committed.copy() if is_large else committed).positions():
                flow = partitions[index] if index < len(partitions) else None
                if flow is not None:
                    rates.append(flow.arrival_rate)
                    lags.append(flow.lag_of(offset))
                    position += offset
                looked_at += 1
                if is_large and looked_at >= _POSITIONS_AT_ONCE:
                    looked_at = 0
                    yield
            if looked_at >= _POSITIONS_AT_ONCE:
                looked_at = 0
                yield
        lag = sum(lags)
        rate = sum(rates)
        pace = self._pace(group_id, members, _Look(now, len(lags), position, lag > 0, None))
        needed = yield from members_needed(rates, lags, pace or 0.0, settings.target_lag, settings.lag_drain_ms)
        return GroupFigures(group_id, members, lag, rate, pace, needed)

    def forget_others(self, group_ids: set[str]) -> Generator[None, None, None]:
        """Forgets all groups except these, in steps."""
        for count, group_id in enumerate(list(self._looks), 1):
            if group_id not in group_ids:
                self._looks.pop(group_id, None)  # another call may have removed it between two steps
            if count % _FORGOTTEN_AT_ONCE == 0:
                yield

    def _pace(self, group_id: str, members: int, look: _Look) -> float | None:
        before = self._looks.get(group_id)
        if before is None:
            self._looks[group_id] = look
            return None
        passed_ms = look.at - before.at
        if 0 <= passed_ms < _SHORTEST_LOOK_MS:
            return before.pace
        pace = before.pace
        # If the clock or an offset went back, there is nothing to measure.
        if members and passed_ms > 0 and look.partitions == before.partitions and look.position > before.position:
            seen = (look.position - before.position) / passed_ms * 1000 / members
            if pace is None:
                pace = seen if before.is_busy else None
            elif before.is_busy and look.is_busy:
                pace += _NEW_SHARE * (seen - pace)
            else:
                pace = max(pace, seen)
        self._looks[group_id] = _Look(look.at, look.partitions, look.position, look.is_busy, pace)
        return pace
