"""The state that decisions on consumer groups use: the durable groups, the cluster's topics, and work in flight.

Work in flight is volatile. After a failover it starts again, because every group then counts as outdated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from klamm.core.coordinator.cluster_topics import NO_TOPICS, ClusterTopics, TopicFacts
from klamm.core.coordinator.shard_contract import Result
from klamm.core.group.assignors.assignor import PreviousOwner
from klamm.core.group.classic.classic_groups import ClassicGroups
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.consumer_store import ConsumerStore
from klamm.core.group.consumer.group_state import MemberState
from klamm.core.group.consumer.member import Assigned, ConsumerGroupMember, Target
from klamm.core.group.consumer.member_lifetimes import MemberLifetimes
from klamm.core.group.consumer.timers import join_timer, rebalance_timer, session_timer, sync_timer
from klamm.core.group.consumer.topic_index import TopicIndex
from klamm.core.group.events import Cause, PartitionsByTopic
from klamm.core.group.group_kind import KindServices
from klamm.core.group.partition_traffic import Traffic
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import Millis, PartitionIndex, TopicId

__all__ = ["ConsumerGroups", "Decision", "CauseDetails"]


class CauseDetails(NamedTuple):
    """Why the group epoch rises: something that happened to a member, or to a topic that the group reads."""

    cause: Cause
    detail: str
    crash_loop: bool = False
    """Whether the member is in a crash loop: it has died again and again without a commit."""


_CAUSES_KEPT: Final = 10
"""Limit of causes kept for a group that gets no heartbeat while its topics change again and again."""
_TAKEN_OVER: Final = CauseDetails(Cause.COORDINATOR_MOVED, "the topics changed while no coordinator looked")


class Decision(NamedTuple):
    """A decision in progress."""

    groups: ConsumerGroups
    """The state that the decision is based on."""
    result: Result
    """The outcome so far."""
    now: Millis


class ConsumerGroups:
    """The consumer groups of a shard, with their topics, settings and volatile state."""

    __slots__ = (
        "assigning",
        "assignors",
        "awaiting_join",
        "awaiting_sync",
        "classic_groups",
        "config",
        "default_assignor",
        "group_config_of",
        "group_store",
        "lifetimes",
        "new_member_id",
        "new_topics_version",
        "outdated",
        "previous_owners",
        "resolving",
        "store",
        "to_weigh",
        "topics",
        "traffic",
    )

    def __init__(self, services: KindServices, classic_groups: ClassicGroups) -> None:
        self.store = services.store.of(ConsumerStore)
        self.group_store = services.store
        """The groups of all kinds, and their offsets."""
        self.classic_groups = classic_groups
        """The classic groups, which migrate to and from consumer groups."""
        self.config = services.config
        self.new_member_id = services.new_uuid
        self.group_config_of = services.group_config_of
        self.assignors = services.assignors
        self.default_assignor = next(iter(services.assignors))
        self.topics: ClusterTopics = NO_TOPICS
        self.traffic: Traffic = {}
        """The latest traffic figures of the partitions; empty until the first arrive."""
        self.to_weigh: list[str] = []
        """Groups not checked since the latest traffic figures; those that are assigned by load are weighed."""
        self.lifetimes = MemberLifetimes()
        self.new_topics_version = 0
        """The cluster version that brought the last new topic; regular expressions resolved before it may lack it."""
        self.outdated: dict[str, tuple[CauseDetails, ...]] = {}
        """Groups whose topics may differ from their metadata hash, and why."""
        self.resolving: set[str] = set()
        """Groups whose regular expressions are being resolved."""
        self.assigning: dict[str, int] = {}
        """The group epoch for which a background task is making a target, by group."""
        self.awaiting_join: set[tuple[str, str]] = set()
        """Members of the classic protocol, by group and member id, that were told to join again."""
        self.awaiting_sync: set[tuple[str, str]] = set()
        """Members of the classic protocol that have joined and must still send SyncGroup."""
        self.previous_owners: dict[str, dict[tuple[TopicId, PartitionIndex], PreviousOwner]] = {}
        """Recent previous owners of partitions, by group."""

    # Finding

    def get(self, group_id: str) -> ConsumerGroup | None:
        """Returns the consumer group with this id, or None."""
        return self.store.groups.get(group_id)

    def expect(self, group_id: str) -> ConsumerGroup:
        """Returns the consumer group with this id. Raises GROUP_ID_NOT_FOUND."""
        group = self.store.groups.get(group_id)
        if group is not None:
            return group
        if self.group_store.is_known(group_id):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")

    def new_group(self, group_id: str) -> ConsumerGroup:
        """Returns an empty group to decide on; it is not stored: replaying its first record creates the stored one."""
        return ConsumerGroup(group_id, TopicIndex())

    # The cluster

    def on_loaded(self, topics: ClusterTopics) -> None:
        """Takes the topics after a load; marks all groups outdated, as topics may have changed since their records."""
        self.topics = topics
        self.new_topics_version = topics.version
        self.outdated = dict.fromkeys(self.store.groups, (_TAKEN_OVER,))

    def on_topics(self, topics: ClusterTopics) -> Iterator[Result]:
        """Takes the cluster's new topics; returns the steps to run afterwards.

        The steps mark the groups that read a changed topic as outdated: their next heartbeat checks their topics.
        """
        before, self.topics = self.topics, topics
        changes = topics.changes_since(before)
        if changes.has_new and self.store.index.regex_groups:
            self.new_topics_version = topics.version
        return self._mark_outdated(before, topics, self.store.index.read_of(changes.names))

    def _mark_outdated(self, before: ClusterTopics, now: ClusterTopics, names: Sequence[str]) -> Iterator[Result]:
        for looks, found in enumerate(self._readers(before, now, names), 1):
            if found is not None:
                group_id, change = found
                known = self.outdated.get(group_id, ())
                if group_id in self.store.groups and len(known) < _CAUSES_KEPT:
                    self.outdated[group_id] = (*known, change)
            if looks % self.config.looks_per_step == 0:
                yield Result()

    def _readers(
        self, before: ClusterTopics, now: ClusterTopics, names: Sequence[str]
    ) -> Iterator[tuple[str, CauseDetails] | None]:
        for name in names:
            change = _compare(name, before.by_name(name), now.by_name(name))
            yield None
            if change is not None:
                for group_id in list(self.store.index.groups_of(name)):
                    yield group_id, change

    def topics_are_seen(self, group_id: str) -> None:
        """Notes that the group's metadata hash matches its present topics."""
        self.outdated.pop(group_id, None)

    def forget(self, group_id: str) -> None:
        """Drops the volatile state of a group that is gone."""
        self.outdated.pop(group_id, None)
        self.resolving.discard(group_id)
        self.assigning.pop(group_id, None)
        self.previous_owners.pop(group_id, None)
        self.lifetimes.forget(group_id)

    def watch(self, group_id: str, member: ConsumerGroupMember, result: Result) -> None:
        """Arms the timers that the member needs, starting now."""
        result.arm(session_timer(group_id, member.member_id), self.session_timeout_ms(group_id, member))
        is_revoking = member.state is MemberState.UNREVOKED_PARTITIONS and member.member_epoch >= 0
        if is_revoking and member.classic is None:
            result.arm(rebalance_timer(group_id, member.member_id), member.rebalance_timeout_ms)
        if (group_id, member.member_id) in self.awaiting_join:
            result.arm(join_timer(group_id, member.member_id), member.rebalance_timeout_ms)
        if (group_id, member.member_id) in self.awaiting_sync:
            result.arm(sync_timer(group_id, member.member_id), member.rebalance_timeout_ms)

    def await_nothing(self, group_id: str, member_id: str) -> None:
        """Stops waiting for JoinGroup or SyncGroup of a member that is gone."""
        self.awaiting_join.discard((group_id, member_id))
        self.awaiting_sync.discard((group_id, member_id))

    def session_timeout_ms(self, group_id: str, member: ConsumerGroupMember) -> int:
        """Returns the member's session timeout; a member of the classic protocol chooses its own."""
        if member.classic is not None:
            return member.classic.session_timeout_ms
        return self.group_config_of(group_id).session_timeout_ms

    def note_commit(self, group_id: str, member_id: str) -> None:
        """Notes a commit in the member's lifetime, if a member of a consumer group sent it."""
        group = self.store.groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        if member is not None:
            self.lifetimes.committed(group_id, member)

    # Subscriptions and assignments

    def subscribed_names(self, group: ConsumerGroup, member: ConsumerGroupMember) -> frozenset[str]:
        """Returns the topics that the member reads, by name and by resolved regular expression."""
        names = member.subscribed_topic_names
        if not member.subscribed_topic_regex:
            return names
        by_regex = group.regex_topics(member.subscribed_topic_regex)
        return names | by_regex if names else by_regex

    def by_topic_name(self, partitions: Assigned | Target) -> PartitionsByTopic:
        """Returns the partitions by topic name, without topics that are gone."""
        named = {}
        for topic_id, of_topic in partitions.items():
            facts = self.topics.by_id(topic_id)
            if facts is not None:
                named[facts.name] = of_topic if isinstance(of_topic, frozenset) else frozenset(of_topic)
        return named

    def causes(self, group_id: str) -> Sequence[CauseDetails]:
        """Returns why the group's topics may have changed; never empty."""
        return self.outdated.get(group_id) or (_TAKEN_OVER,)


def _compare(name: str, before: TopicFacts | None, now: TopicFacts | None) -> CauseDetails | None:
    if before is now or (before is not None and now is not None and before.hash == now.hash):
        return None
    if now is None:
        return CauseDetails(Cause.TOPIC_DELETED, f"topic {name} was deleted")
    if before is None or before.topic_id != now.topic_id:
        return CauseDetails(Cause.TOPIC_CREATED, f"topic {name} was created")
    if before.partition_count != now.partition_count:
        return CauseDetails(
            Cause.PARTITIONS_ADDED,
            f"topic {name} has {now.partition_count} partitions instead of {before.partition_count}",
        )
    return CauseDetails(Cause.PARTITIONS_ADDED, f"replicas of topic {name} are in other racks")
