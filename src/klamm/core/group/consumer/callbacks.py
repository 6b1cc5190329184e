"""Decisions on consumer groups that no request causes: loads, timers, background tasks (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from klamm.core.coordinator.cluster_topics import ClusterTopics
from klamm.core.coordinator.shard_contract import Result, TimerKey, TimerKind
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.consumer_groups import ConsumerGroups, Decision
from klamm.core.group.consumer.held_back import on_back_off_timer, watch_held_back
from klamm.core.group.consumer.load_trigger import WeighLoad, on_load_timer, on_weighed
from klamm.core.group.consumer.member_removal import on_rebalance_timer, on_session_timer
from klamm.core.group.consumer.migration.classic_members import on_member_late
from klamm.core.group.consumer.regexes import ResolveRegexes, on_regexes_resolved
from klamm.core.group.consumer.target_assignment import (
    MakeTarget,
    arm_target_timer,
    on_target_made,
    on_target_timer,
)
from klamm.core.group.consumer.timers import BACK_OFF, JOIN, LOAD_TIMER, REBALANCE, SESSION, SYNC, TARGET
from klamm.core.group.crash_loops import FIRST_BACK_OFF_MS
from klamm.core.group.events import GroupLoaded, GroupType, MemberJoined
from klamm.core.group.group_kind import GROUPS_PER_LOAD_STEP
from klamm.protocol.types import Millis

__all__ = [
    "CONSUMER_TASKS",
    "CONSUMER_TIMERS",
    "on_consumer_groups_loaded",
    "on_consumer_task",
    "on_consumer_timer",
]


def on_consumer_groups_loaded(groups: ConsumerGroups, topics: ClusterTopics, now: Millis) -> Iterator[Result]:
    """Yields the steps that take over the loaded groups; timers may expire between two steps.

    Every member gets a full session timeout, and a full rebalance timeout if it has to revoke partitions.
    """
    groups.on_loaded(topics)
    with_members = [group for group in groups.store.groups.values() if group.members]
    for start in range(0, len(with_members), GROUPS_PER_LOAD_STEP):
        result = Result()
        for group in with_members[start : start + GROUPS_PER_LOAD_STEP]:
            for member in group.members.values():
                groups.watch(group.group_id, member, result)
            watch_held_back(groups, group, result, FIRST_BACK_OFF_MS)
            result.events.append(_loaded(groups, group, now))
            if group.epoch > group.target_epoch:
                arm_target_timer(Decision(groups, result, now), group)
        yield result


def on_consumer_timer(groups: ConsumerGroups, key: TimerKey, now: Millis) -> Result:
    """Decides on an expired timer of a consumer group; `CONSUMER_TIMERS` lists the kinds."""
    decision = Decision(groups, Result(), now)
    CONSUMER_TIMERS[key.kind](decision, key)
    return decision.result


def on_consumer_task(groups: ConsumerGroups, task: object, outcome: object, now: Millis) -> Result:
    """Decides on the outcome of a background task; `CONSUMER_TASKS` lists the classes.

    An exception means that the task raised it.
    """
    decision = Decision(groups, Result(), now)
    CONSUMER_TASKS[type(task)](decision, task, outcome)
    return decision.result


def _of_member(handle: Callable[[Decision, str, str], None]) -> Callable[[Decision, TimerKey], None]:
    def on_timer(decision: Decision, key: TimerKey) -> None:
        handle(decision, key.owner_id, str(key.detail))

    return on_timer


def _on_join_timer(decision: Decision, key: TimerKey) -> None:
    on_member_late(decision, key, decision.groups.awaiting_join, "join again")


def _on_sync_timer(decision: Decision, key: TimerKey) -> None:
    on_member_late(decision, key, decision.groups.awaiting_sync, "ask for its assignment")


CONSUMER_TIMERS: Final[Mapping[TimerKind, Callable[[Decision, TimerKey], None]]] = {
    SESSION: _of_member(on_session_timer),
    REBALANCE: _of_member(on_rebalance_timer),
    BACK_OFF: _of_member(on_back_off_timer),
    JOIN: _on_join_timer,
    SYNC: _on_sync_timer,
    TARGET: lambda decision, key: on_target_timer(decision, key.owner_id),
    LOAD_TIMER.kind: lambda decision, _: on_load_timer(decision),
}
"""The handler of an expired timer, by its kind."""

CONSUMER_TASKS: Final[Mapping[type, Callable[[Decision, Any, Any], None]]] = {
    MakeTarget: on_target_made,
    WeighLoad: on_weighed,
    ResolveRegexes: on_regexes_resolved,
}
"""The handler of a finished background task, by its class. It gets the task, and the result or exception of `run`."""


def _loaded(groups: ConsumerGroups, group: ConsumerGroup, now: Millis) -> GroupLoaded:
    return GroupLoaded(
        group.group_id,
        GroupType.CONSUMER,
        group.epoch,
        {member_id: groups.by_topic_name(member.assigned) for member_id, member in group.members.items()},
        now,
        tuple(
            MemberJoined(
                group.group_id, member.member_id, member.instance_id, member.client_id, member.client_host, now
            )
            for member in group.members.values()
        ),
        frozenset(group.subscribed_topics()),
    )
