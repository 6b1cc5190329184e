"""Decisions on classic groups that no request causes: loads, expired timers, the loss of leadership."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Final

from klamm.core.coordinator.shard_contract import Result, TimerKey, TimerKind
from klamm.core.group.classic.classic_events import loaded, needed
from klamm.core.group.classic.classic_group import ClassicGroup
from klamm.core.group.classic.classic_groups import ClassicGroups
from klamm.core.group.classic.group_state import GroupEvent
from klamm.core.group.classic.heartbeats import on_session_timer
from klamm.core.group.classic.rebalance import (
    answer_parked_requests,
    on_batch_timer,
    on_join_timer,
    prepare_rebalance,
)
from klamm.core.group.classic.syncs import on_sync_timer
from klamm.core.group.classic.timers import BATCH, JOIN, SESSION, SYNC
from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.core.group.events import Cause
from klamm.core.group.group_kind import GROUPS_PER_LOAD_STEP
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import Millis

__all__ = ["CLASSIC_TIMERS", "on_classic_groups_loaded", "on_classic_groups_unloaded", "on_classic_timer"]


def on_classic_groups_loaded(
    groups: ClassicGroups, config: GroupCoordinatorConfig, converted: Container[str], now: Millis
) -> Iterator[Result]:
    """Yields the steps that take over the loaded groups; timers may expire between two steps.

    Every member gets a full session timeout. `converted` are the groups that turned classic just before the load.
    """
    with_members = [group_id for group_id, metadata in groups.store.groups.items() if metadata.members]
    for start in range(0, len(with_members), GROUPS_PER_LOAD_STEP):
        result = Result()
        for group_id in with_members[start : start + GROUPS_PER_LOAD_STEP]:
            group = groups.find(group_id)
            if group is not None:  # A timer may have removed the group between two steps.
                _take_over(group, config, group_id in converted, result, now)
        yield result


def _take_over(
    group: ClassicGroup, config: GroupCoordinatorConfig, is_converted: bool, result: Result, now: Millis
) -> None:
    for member in group.members.values():
        result.arm(member.session_timer, member.session_timeout_ms)
    result.events.append(loaded(group, now))
    if len(group.members) > config.max_size:
        detail = f"{len(group.members)} members are more than {config.max_size}"
        cause = needed(group, Cause.GROUP_TOO_LARGE, None, detail, now)
        prepare_rebalance(group, [cause], config, result, now)
    elif is_converted and group.members:
        # After a downgrade, a rebalance distributes the partitions of the members that used the consumer protocol.
        # That rebalance is lost with the coordinator that started it. Kafka's next coordinator does not repeat it,
        # and those partitions have no owner.
        detail = "the group has just turned classic, and its members are to join again"
        cause = needed(group, Cause.PROTOCOL_CHANGED, None, detail, now)
        prepare_rebalance(group, [cause], config, result, now)


def on_classic_groups_unloaded(groups: ClassicGroups, result: Result) -> None:
    """Answers every parked request with NOT_COORDINATOR."""
    for group in groups.rounds():
        for member in group.members.values():
            answer_parked_requests(group, member, ErrorCode.NOT_COORDINATOR, result)
        group.move(GroupEvent.UNLOADED, group.state_timestamp_ms or Millis(0))


def on_classic_timer(groups: ClassicGroups, config: GroupCoordinatorConfig, key: TimerKey, now: Millis) -> Result:
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
