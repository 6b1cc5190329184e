"""The metrics of groups, gathered in steps, so that very many groups do not block the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Final

from klamm.broker.services.metrics.metrics import Figure
from klamm.broker.time_slices import STEP_S

if TYPE_CHECKING:
    from klamm.runtime.group_coordinator import GroupCoordinator

__all__ = ["gather_group_figures"]

_LABELS: Final = ("group",)


async def gather_group_figures(groups: GroupCoordinator) -> Sequence[Figure]:
    """Gathers the metrics of every group that has committed offsets or has members.

    These are members, lag, arrival rate, and, where known, the pace of a member and the number of members needed.
    """
    members: list[tuple[tuple[str, ...], float]] = []
    lag: list[tuple[tuple[str, ...], float]] = []
    rate: list[tuple[tuple[str, ...], float]] = []
    pace: list[tuple[tuple[str, ...], float]] = []
    needed: list[tuple[tuple[str, ...], float]] = []
    step_ends = monotonic() + STEP_S
    for figures in groups.measurements.figures():
        if monotonic() >= step_ends:
            await asyncio.sleep(0)
            step_ends = monotonic() + STEP_S
        if figures is None:
            continue
        label = (figures.group_id,)
        members.append((label, figures.members))
        lag.append((label, figures.lag))
        rate.append((label, figures.arrival_rate))
        if figures.pace is not None:
            pace.append((label, figures.pace))
        if figures.members_needed is not None:
            needed.append((label, figures.members_needed))
    return [
        Figure("klamm_group_members", "Members of the group.", _LABELS, members),
        Figure("klamm_group_lag_records", "Records that the group has still to read.", _LABELS, lag),
        Figure(
            "klamm_group_arrival_rate", "Records a second that arrive in the partitions it commits for.", _LABELS, rate
        ),
        Figure("klamm_group_member_pace", "Records a second that one member gets through when busy.", _LABELS, pace),
        Figure(
            "klamm_group_members_needed",
            "Members that would bring the lag to klamm.consumer.assignor.load.target.lag within "
            "klamm.consumer.assignor.load.lag.drain.ms, and keep it there.",
            _LABELS,
            needed,
        ),
    ]
