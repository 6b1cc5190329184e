"""Why a present member joins again: what has changed in its metadata or in the topics.

Only texts for people depend on it. Newer clients put their generation and owned partitions into the metadata, which
therefore differs each time; only other differences count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from klamm.core.coordinator.cluster_topics import ClusterTopics
from klamm.core.group.classic.classic_group import ClassicGroup
from klamm.core.group.classic.embedded_protocol import Assignment, owned_partitions, subscribed_topics
from klamm.core.group.classic.group_state import GroupState
from klamm.core.group.classic.member import Member, Protocols
from klamm.core.group.events import Cause

__all__ = ["REJOIN_DETAILS", "rejoin_cause", "topic_change"]

REJOIN_DETAILS: Final[Mapping[Cause, str]] = {
    Cause.LEADER_REJOINED: "leads the group and joins again",
    Cause.MEMBER_REJOINED: "joins again of its own accord",
    Cause.PARTITIONS_REVOKED: "has given up partitions that others are to have",
    Cause.SUBSCRIPTION_CHANGED: "has changed its subscription",
    Cause.ASSIGNOR_CHANGED: "has changed its assignors",
}
"""Texts to put after the name of the member."""


def rejoin_cause(member: Member, protocols: Protocols, *, is_leader: bool) -> Cause:
    """Returns what a member changes with these new protocols."""
    if [name for name, _ in protocols] != [name for name, _ in member.protocols]:
        return Cause.ASSIGNOR_CHANGED
    before, after = member.protocols[0][1], protocols[0][1]
    if subscribed_topics([before]) != subscribed_topics([after]):
        return Cause.SUBSCRIPTION_CHANGED
    still_owned = owned_partitions(after)
    if any(not owned <= still_owned.get(topic, frozenset()) for topic, owned in owned_partitions(before).items()):
        return Cause.PARTITIONS_REVOKED
    return Cause.LEADER_REJOINED if is_leader else Cause.MEMBER_REJOINED


def topic_change(group: ClassicGroup, topics: ClusterTopics) -> tuple[Cause, str] | None:
    """Returns how the group's topics differ from its members' assignments; None if they don't or that is unknown.

    In a stable group every partition is assigned, so the assignments show what the topics were. That does not hold if
    members revoke partitions in one generation to have them assigned in the next.
    """
    if not topics.version or group.topics is None or group.state is not GroupState.STABLE:
        return None
    assigned: dict[str, int] = {}
    for member in group.members.values():
        if owned_partitions(member.protocols[0][1]):
            return None
        for topic, partitions in Assignment(member.assignment).items():
            assigned[topic] = assigned.get(topic, 0) + len(partitions)
    for name in sorted(assigned.keys() | group.topics):
        facts = topics.by_name(name)
        before, now = assigned.get(name, 0), 0 if facts is None else facts.partition_count
        if before == now:
            continue
        if not before:
            return Cause.TOPIC_CREATED, f"topic {name} was created"
        if not now:
            return Cause.TOPIC_DELETED, f"topic {name} was deleted"
        return Cause.PARTITIONS_ADDED, f"topic {name} has {now} partitions instead of {before}"
    return None
