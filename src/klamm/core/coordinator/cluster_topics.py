"""A coordinator's view of the cluster's topics.

A coordinator decides from a snapshot of the topics that is passed in, never from the metadata store itself, so that the
simulator can create its own snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final, NamedTuple, Protocol

from klamm.protocol.types import TopicId

__all__ = ["NO_TOPICS", "ClusterTopics", "NoTopics", "TopicChanges", "TopicFacts"]


class TopicFacts(NamedTuple):
    """The properties of a topic that coordinators need."""

    name: str
    topic_id: TopicId
    partition_count: int
    racks: tuple[frozenset[str], ...]
    """The racks of each partition's replicas; empty if no broker has a rack."""
    hash: int
    """A signed 64-bit hash over name, id, partition count and racks. If it changes, assignments may have to change
    (Kafka's `Utils.computeTopicHash`)."""


class TopicChanges(NamedTuple):
    """The difference between two snapshots of the topics."""

    names: Set[str]
    """The topics that may have changed: all that were created, deleted or changed, and perhaps more."""
    has_new: bool
    """Whether there is a new name."""


class ClusterTopics(Protocol):
    """An immutable snapshot of the topics; each change of the cluster creates a new one."""

    @property
    def version(self) -> int:
        """The version, which increases with every change of the cluster, also across restarts."""

    def by_name(self, name: str) -> TopicFacts | None:
        """Returns the topic of that name, or None."""

    def by_id(self, topic_id: TopicId) -> TopicFacts | None:
        """Returns the topic of that id, or None."""

    def names(self) -> Iterable[str]:
        """Returns the names of all topics."""

    def changes_since(self, earlier: ClusterTopics) -> TopicChanges:
        """Returns the changes since an earlier snapshot. Cheap if every shard of a coordinator makes the same call."""


class NoTopics:
    """A cluster without topics."""

    @property
    def version(self) -> int:
        """The version before any other: 0."""
        return 0

    def by_name(self, name: str) -> TopicFacts | None:
        """Returns None."""
        return None

    def by_id(self, topic_id: TopicId) -> TopicFacts | None:
        """Returns None."""
        return None

    def names(self) -> Iterable[str]:
        """Returns no names."""
        return ()

    def changes_since(self, earlier: ClusterTopics) -> TopicChanges:
        """Returns all earlier topics as changed."""
        return TopicChanges(frozenset(earlier.names()), has_new=False)


NO_TOPICS: Final[ClusterTopics] = NoTopics()
