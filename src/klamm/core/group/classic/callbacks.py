"""Decisions on classic groups that no request causes: expired timers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from klamm.core.coordinator.shard_contract import Result, TimerKey, TimerKind
from klamm.core.group.classic.classic_group import ClassicGroup
from klamm.core.group.classic.heartbeats import on_session_timer
from klamm.core.group.classic.rebalance import on_batch_timer, on_join_timer
from klamm.core.group.classic.syncs import on_sync_timer
from klamm.core.group.classic.timers import BATCH, JOIN, SESSION, SYNC
from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.core.group.group_registry import GroupRegistry
from klamm.protocol.types import Millis

__all__ = ["CLASSIC_TIMERS", "on_classic_timer"]


def on_classic_timer(groups: GroupRegistry, config: GroupCoordinatorConfig, key: TimerKey, now: Millis) -> Result:
    """Decides on an expired timer of a classic group; `CLASSIC_TIMERS` lists the kinds."""
    result = Result()
    group = groups.find(key.owner_id)
    if group is not None:  # The group may have been removed while the timer ran.
        CLASSIC_TIMERS[key.kind](group, key, config, result, now)
    return result


_OnTimer = Callable[[ClassicGroup, TimerKey, GroupCoordinatorConfig, Result, Millis], None]

CLASSIC_TIMERS: Final[Mapping[TimerKind, _OnTimer]] = {
    SESSION: lambda group, key, config, result, now: on_session_timer(group, str(key.detail), config, result, now),
    JOIN: lambda group, _, config, result, now: on_join_timer(group, config, result, now),
    SYNC: lambda group, _, config, result, now: on_sync_timer(group, config, result, now),
    BATCH: lambda group, _, config, result, now: on_batch_timer(group, config, result, now),
}
"""The handler of an expired timer, by its kind."""
