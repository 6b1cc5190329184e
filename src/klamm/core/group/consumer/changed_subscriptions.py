"""The subscriptions of a group after a change of its members that is not in the log yet.

A decision writes the new group epoch together with the member that caused it, so it needs the new subscriptions before
any of its records is replayed. After Apache Kafka's `ConsumerGroup.computeSubscribedTopicNames` and `subscriptionType`,
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
    """How many members and regular expressions read each topic."""

    name_counts: Mapping[str, int]
    """How many members subscribed to a topic by its name."""
    regex_topic_counts: Mapping[str, int]
    """How many regular expressions match a topic."""
    regex_counts: Mapping[str, int]
    """How many members subscribed by a regular expression."""
    size: int
    """How many members there are."""

    @property
    def topics(self) -> Set[str]:
        """The names of the topics that members read; they need not exist."""
        return self.name_counts.keys() | self.regex_topic_counts.keys()

    def metadata_hash(self, topics: ClusterTopics) -> int:
        """Returns the hash of the existing topics that members read."""
        hashes = []
        for name in self.topics:
            facts = topics.by_name(name)
            if facts is not None:
                hashes.append((name, facts.hash))
        return group_hash(hashes)

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members read the same topics."""
        if not self.regex_counts:
            return not self.regex_topic_counts and all(count == self.size for count in self.name_counts.values())
        # Names and a regular expression together may still give the same topics; that is not checked.
        return (
            next(iter(self.regex_counts.values())) == self.size
            and not self.name_counts
            and all(count == 1 for count in self.regex_topic_counts.values())
        )


def at_present(group: ConsumerGroup) -> Subscriptions:
    """Returns the present subscriptions."""
    return Subscriptions(group.name_counts, group.regex_topic_counts, group.regex_counts, len(group.members))


def after_change(group: ConsumerGroup, old: ConsumerGroupMember, new: ConsumerGroupMember) -> Subscriptions:
    """Returns the subscriptions once `old`, which may not be a member yet, is replaced by `new`.

    The topics of a regular expression that only `old` used are dropped.
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
    """Returns the subscriptions once these members and these regular expressions are removed."""
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
    """Returns the subscriptions once these regular expressions are resolved to these topics."""
    regex_topics = Counter(group.regex_topic_counts)
    for regex, now in resolved.items():
        regex_topics.subtract(group.regex_topics(regex))
        regex_topics.update(now.topics)
    return Subscriptions(group.name_counts, +regex_topics, group.regex_counts, len(group.members))


def preferred_assignor(
    group: ConsumerGroup, old: ConsumerGroupMember | None, new: ConsumerGroupMember | None, default: str
) -> str:
    """Returns the assignor that most members prefer, with `old` replaced by `new`; the default if none prefers any.

    Ties are broken as in Kafka, where the first entry of a map wins. Without a change, the map is a TimelineHashMap.
    With a change, it is a copy of that in a HashMap: the vote of `old` is removed and that of `new` is added. An added
    entry is the first one of its bucket.
    """
    if old is None and new is None and len(group.server_assignor_counts) < 2:
        return next(iter(group.server_assignor_counts), default)  # Fast path: thousands of groups are checked at once.
    names = sorted(group.server_assignor_counts, key=_slot)
    if old is None and new is None:
        return max(names, key=group.server_assignor_counts.__getitem__, default=default)
    counts = dict(group.server_assignor_counts)
    largest_bucket = _table_size(len(names)) - 1
    if old is not None and old.server_assignor is not None:
        counts[old.server_assignor] -= 1
        if not counts[old.server_assignor]:
            names.remove(old.server_assignor)
    if new is not None and new.server_assignor is not None:
        counts[new.server_assignor] = counts.get(new.server_assignor, 0) + 1
        if new.server_assignor not in names:
            names.insert(0, new.server_assignor)
    names.sort(key=lambda name: _spread_hash(name) & largest_bucket)
    return max(names, key=counts.__getitem__, default=default)


def _without(counts: Mapping[str, int], topics: Iterable[str]) -> Mapping[str, int]:
    left = Counter(counts)
    left.subtract(topics)
    return +left


def _slot(name: str) -> int:
    """Returns the hash whose highest bits are the slot in Kafka's TimelineHashMap (BaseHashTable.findSlot)."""
    return (java_hash(name) * -7046029254386353131) & 0xFFFFFFFFFFFFFFFF


def _spread_hash(name: str) -> int:
    """Returns the hash whose lowest bits are the bucket in a HashMap."""
    code = java_hash(name) & 0xFFFFFFFF
    return code ^ (code >> 16)


def _table_size(entry_count: int) -> int:
    """Returns the number of buckets of a HashMap that is a copy of a map with that many entries."""
    if not entry_count:
        return 16
    return 1 << (int(entry_count / 0.75 + 1) - 1).bit_length()
