"""What a coordinator knows of the cluster's topics.

It decides from a picture of the topics that is handed in, never from the metadata store itself, so that
the simulator can paint one of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final, NamedTuple, Protocol

from klamm.protocol.types import TopicId

__all__ = ["NO_TOPICS", "ClusterTopics", "NoTopics", "TopicChanges", "TopicFacts"]


class TopicFacts(NamedTuple):
    """One topic, as far as coordinators need it."""

    name: str
    topic_id: TopicId
    partition_count: int
    racks: tuple[frozenset[str], ...]
    """The racks of each partition's replicas; empty where no broker names its rack."""
    hash: int
    """A signed 64-bit hash over name, id, partition count and racks: another hash means that assignments may have to
    change (Kafka's `Utils.computeTopicHash`)."""


class TopicChanges(NamedTuple):
    """What lies between two pictures of the topics."""

    names: Set[str]
    """The topics that may be other than they were: all that came, went or changed, and perhaps more."""
    has_new: bool
    """Whether there is a name that was not there before."""


class ClusterTopics(Protocol):
    """The topics at one moment. It never changes: a change of the cluster brings a new one."""

    @property
    def version(self) -> int:
        """Rises with every change of the cluster, over restarts too."""

    def by_name(self, name: str) -> TopicFacts | None:
        """The topic of that name."""

    def by_id(self, topic_id: TopicId) -> TopicFacts | None:
        """The topic of that id."""

    def names(self) -> Iterable[str]:
        """The names of all topics."""

    def changes_since(self, earlier: ClusterTopics) -> TopicChanges:
        """What has changed since an earlier picture. Cheap when every shard of a coordinator asks the same."""


class NoTopics:
    """A cluster without topics."""

    @property
    def version(self) -> int:
        """0: before everything."""
        return 0

    def by_name(self, name: str) -> TopicFacts | None:
        """None."""
        return None

    def by_id(self, topic_id: TopicId) -> TopicFacts | None:
        """None."""
        return None

    def names(self) -> Iterable[str]:
        """None."""
        return ()

    def changes_since(self, earlier: ClusterTopics) -> TopicChanges:
        """All that there was is gone."""
        return TopicChanges(frozenset(earlier.names()), has_new=False)


NO_TOPICS: Final[ClusterTopics] = NoTopics()
