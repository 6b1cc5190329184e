"""What happens to consumer groups without a request: a load, timers, background tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from klamm.core.coordinator.cluster_topics import ClusterTopics
from klamm.core.coordinator.shard_contract import Result, TimerKey
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.consumer_groups import ConsumerGroups, Decision
from klamm.core.group.consumer.held_back import on_back_off_timer, watch_held_back
from klamm.core.group.consumer.load_trigger import is_load_task, is_load_timer, on_load_timer, on_weighed
from klamm.core.group.consumer.member_removal import on_rebalance_timer, on_session_timer
from klamm.core.group.consumer.migration.classic_members import on_member_late
from klamm.core.group.consumer.regexes import is_regex_task, on_regexes_resolved
from klamm.core.group.consumer.target_assignment import (
    arm_target_timer,
    is_target_task,
    on_target_made,
    on_target_timer,
)
from klamm.core.group.crash_loops import FIRST_BACK_OFF_MS
from klamm.core.group.events import GroupLoaded, GroupType, MemberJoined
from klamm.protocol.types import Millis

__all__ = [
    "GROUPS_PER_LOAD_STEP",
    "is_consumer_timer",
    "on_consumer_groups_loaded",
    "on_consumer_task",
    "on_consumer_timer",
]

GROUPS_PER_LOAD_STEP: Final = 50
"""So many groups that have members are taken over in one go: two milliseconds, if they are small."""


def on_consumer_groups_loaded(groups: ConsumerGroups, topics: ClusterTopics, now: Millis) -> Iterator[Result]:
    """Give every member a session to be heard of in, and what is left of others' patience where it has to let go.

    In steps: timers may run out in between.
    """
    groups.on_loaded(topics)
    with_members = [group for group in groups.store.consumer_groups.values() if group.members]
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


def is_consumer_timer(key: TimerKey) -> bool:
    """Whether the key is that of a timer of consumer groups."""
    return str(key[0]).startswith("consumer ")


def on_consumer_timer(groups: ConsumerGroups, key: TimerKey, now: Millis) -> Result:
    """A session, a wait for partitions, or the time between two targets is over."""
    decision = Decision(groups, Result(), now)
    if is_load_timer(key):
        on_load_timer(decision)
        return decision.result
    kind, group_id, *rest = key
    if kind == "consumer session":
        on_session_timer(decision, str(group_id), str(rest[0]))
    elif kind == "consumer rebalance":
        on_rebalance_timer(decision, str(group_id), str(rest[0]))
    elif kind == "consumer join":
        on_member_late(decision, key, groups.awaiting_join, "join again")
    elif kind == "consumer sync":
        on_member_late(decision, key, groups.awaiting_sync, "ask for its assignment")
    elif kind == "consumer back-off":
        on_back_off_timer(decision, str(group_id), str(rest[0]))
    else:
        on_target_timer(decision, str(group_id))
    return decision.result


def on_consumer_task(groups: ConsumerGroups, key: TimerKey, outcome: object, now: Millis) -> Result:
    """A target has been made elsewhere, or regular expressions have been resolved."""
    decision = Decision(groups, Result(), now)
    if is_target_task(key):
        on_target_made(decision, key, outcome)
    elif is_load_task(key):
        on_weighed(decision, key, outcome)
    elif is_regex_task(key):
        on_regexes_resolved(decision, key, outcome)
    else:
        raise KeyError(key)
    return decision.result


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
