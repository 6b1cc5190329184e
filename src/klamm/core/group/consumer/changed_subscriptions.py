"""What a group would read after a change of its members that is not in the log yet.

A decision writes the new group epoch in the same breath as the member that caused it, so it has to know the outcome
before any of it is replayed. After Apache Kafka's `ConsumerGroup.computeSubscribedTopicNames` and `subscriptionType`,
and `ModernGroup.computeMetadataHash`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from typing import NamedTuple

from klamm.core.coordinator.cluster_topics import ClusterTopics
from klamm.core.coordinator.java_hash import java_hash
from klamm.core.coordinator.topic_hash import group_hash
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.consumer_group_records import ResolvedRegex
from klamm.core.group.consumer.member import ConsumerGroupMember

__all__ = ["Subscriptions", "after_change", "after_removal", "after_resolution", "at_present", "preferred_assignor"]


class Subscriptions(NamedTuple):
    """Who reads what, in numbers."""

    name_counts: Mapping[str, int]
    """How many members subscribed to a topic by its name."""
    regex_topic_counts: Mapping[str, int]
    """How many regular expressions stand for a topic."""
    regex_counts: Mapping[str, int]
    """How many members subscribed by a regular expression."""
    size: int
    """How many members there are."""

    @property
    def topics(self) -> Set[str]:
        """The names of the topics that are read; they need not exist."""
        return self.name_counts.keys() | self.regex_topic_counts.keys()

    def metadata_hash(self, topics: ClusterTopics) -> int:
        """The hash over the topics that are read, of those that exist."""
        hashes = []
        for name in self.topics:
            facts = topics.by_name(name)
            if facts is not None:
                hashes.append((name, facts.hash))
        return group_hash(hashes)

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members read the same."""
        if not self.regex_counts:
            return not self.regex_topic_counts and all(count == self.size for count in self.name_counts.values())
        # Names beside a regular expression may or may not come to the same topics: that is not looked into.
        return (
            next(iter(self.regex_counts.values())) == self.size
            and not self.name_counts
            and all(count == 1 for count in self.regex_topic_counts.values())
        )


def at_present(group: ConsumerGroup) -> Subscriptions:
    """What is read now."""
    return Subscriptions(group.name_counts, group.regex_topic_counts, group.regex_counts, len(group.members))


def after_change(group: ConsumerGroup, old: ConsumerGroupMember, new: ConsumerGroupMember) -> Subscriptions:
    """What is read once `old`, which may never have been a member, is `new`.

    A regular expression that nobody else uses goes with the member that used it.
    """
    names = Counter(group.name_counts)
    if old.subscribed_topic_names != new.subscribed_topic_names:
        names.update(new.subscribed_topic_names)
        names.subtract(old.subscribed_topic_names)
    regexes = Counter(group.regex_counts)
    regex_topics: Mapping[str, int] = group.regex_topic_counts
    old_regex, new_regex = old.subscribed_topic_regex, new.subscribed_topic_regex
    if old_regex != new_regex:
        if old_regex:
            regexes[old_regex] -= 1
            if group.regex_counts.get(old_regex) == 1:
                regex_topics = _without(regex_topics, group.regex_topics(old_regex))
        if new_regex:
            regexes[new_regex] += 1
    is_known = new.member_id in group.members or (
        new.instance_id is not None and new.instance_id in group.static_members
    )
    return Subscriptions(+names, regex_topics, +regexes, len(group.members) + (not is_known))


def after_removal(
    group: ConsumerGroup, removed: Iterable[ConsumerGroupMember], dropped_regexes: Iterable[str]
) -> Subscriptions:
    """What is read once these members are gone, and these regular expressions with them."""
    names, regexes, size = Counter(group.name_counts), Counter(group.regex_counts), len(group.members)
    for member in removed:
        names.subtract(member.subscribed_topic_names)
        if member.subscribed_topic_regex:
            regexes[member.subscribed_topic_regex] -= 1
        size -= 1
    regex_topics: Mapping[str, int] = group.regex_topic_counts
    for regex in dropped_regexes:
        regex_topics = _without(regex_topics, group.regex_topics(regex))
    return Subscriptions(+names, regex_topics, +regexes, size)


def after_resolution(group: ConsumerGroup, resolved: Mapping[str, ResolvedRegex]) -> Subscriptions:
    """What is read once these regular expressions stand for these topics."""
    regex_topics = Counter(group.regex_topic_counts)
    for regex, now in resolved.items():
        regex_topics.subtract(group.regex_topics(regex))
        regex_topics.update(now.topics)
    return Subscriptions(group.name_counts, +regex_topics, group.regex_counts, len(group.members))


def preferred_assignor(
    group: ConsumerGroup, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None, default: str
) -> str:
    """The assignor that most members want, with `old` replaced by `new`; the default if nobody wants any.

    Equal votes are settled as in Kafka, where the first entry wins: of a map of its own for what is known, of a HashMap
    with that one's entries and the newcomer's for what is asked.
    """
    if old is None and new is None and len(group.server_assignor_counts) < 2:
        return next(iter(group.server_assignor_counts), default)  # Thousands of groups are asked in one go.
    counts = Counter(
        {name: group.server_assignor_counts[name] for name in sorted(group.server_assignor_counts, key=_slot)}
    )
    if old is None and new is None:
        return max(counts, key=counts.__getitem__, default=default)
    if old is not None and old.server_assignor is not None:
        counts[old.server_assignor] -= 1
    if new is not None and new.server_assignor is not None:
        counts[new.server_assignor] += 1
    counts = +counts
    return min(counts, key=lambda name: (-counts[name], _bucket(name)), default=default)


def _without(counts: Mapping[str, int], topics: Iterable[str]) -> Mapping[str, int]:
    left = Counter(counts)
    left.subtract(topics)
    return +left


def _slot(name: str) -> int:
    """Where it lies in Kafka's TimelineHashMap, whose slots are the highest bits of this (BaseHashTable.findSlot)."""
    return (java_hash(name) * -7046029254386353131) & 0xFFFFFFFFFFFFFFFF


def _bucket(name: str) -> int:
    """Where it lies in a HashMap of few entries."""
    spread = java_hash(name) & 0xFFFFFFFF
    return (spread ^ (spread >> 16)) & 3
