"""How a group is doing: its lag, how fast records arrive, and how many members it would need.

A member's pace is known only while its group has something to catch up with; a group that waits for records reads as
fast as they come, which says no more than that its members are at least as fast. So the pace is that of the busy times,
and grows with any time that was faster. It is measured by commits: two looks at them, some seconds apart. A partition
that comes in between, with whatever offset, is no progress: when there are more or fewer than before, the look is a new
beginning.

A group may have committed for tens of thousands of partitions, so a look is taken in steps. It is no picture of one
moment then, which nobody can tell: the figures are of some seconds anyway.
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
"""So many partitions are looked at in one step: about two milliseconds."""
_FORGOTTEN_AT_ONCE: Final = 1000
_NEW_SHARE: Final = 0.3
"""What the latest busy time counts in the pace."""


class GroupFigures(NamedTuple):
    """One group at one moment, over all partitions that it has committed for."""

    group_id: str
    members: int
    lag: int
    """Records."""
    arrival_rate: float
    """Records a second."""
    pace: float | None
    """Records a second that one member gets through; None until a busy time was seen."""
    members_needed: int | None
    """How many members bring the lag down to `klamm.consumer.assignor.load.target.lag` within `lag.drain.ms`, and keep
    it there; None while the pace is not known."""


class _Look(NamedTuple):
    at: Millis
    partitions: int
    """How many were looked at."""
    position: int
    """The sum of what is committed for them."""
    is_busy: bool
    pace: float | None


class GroupMeter:
    """Remembers of each group what it looked like when it was looked at last."""

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
        """Look at a group, in as many steps as its partitions take. Those that nothing is known of are left out.

        The offsets may change between the steps, `traffic` must not.
        """
        # Two lists of numbers, not one of pairs: the garbage collector would have to look at every pair.
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
        """Forget all groups but these, some in a step."""
        for count, group_id in enumerate(list(self._looks), 1):
            if group_id not in group_ids:
                self._looks.pop(group_id, None)  # another round may have done it between two steps
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
        # A clock or an offset that was set back says nothing.
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
