"""A cluster's topics for tests, which a test defines by name and partition count."""

from __future__ import annotations

from collections.abc import Iterable

from klamm.core.coordinator.cluster_topics import ClusterTopics, TopicChanges, TopicFacts
from klamm.core.coordinator.topic_hash import topic_hash
from klamm.protocol.types import TopicId

__all__ = ["PaintedTopics", "topic_id"]


def topic_id(name: str, incarnation: int = 0) -> TopicId:
    """Returns a topic id that contains the name and the incarnation."""
    return TopicId(name.encode()[:15].ljust(15, b".") + bytes([incarnation]))


class PaintedTopics:
    """Topics with partition counts, in order of their names; all replicas are in one rack if `rack` is not empty."""

    def __init__(
        self, version: int = 1, rack: str = "", /, *, incarnations: dict[str, int] | None = None, **partitions: int
    ) -> None:
        self.version = version
        racks = frozenset({rack})
        ids = {name: topic_id(name, (incarnations or {}).get(name, 0)) for name in partitions}
        self._by_name = {
            name: TopicFacts(name, ids[name], count, placed, topic_hash(name, ids[name], count, placed))
            for name, count in sorted(partitions.items())
            for placed in ((racks,) * count if rack else (),)
        }
        self._by_id = {facts.topic_id: facts for facts in self._by_name.values()}

    def by_name(self, name: str) -> TopicFacts | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: TopicId) -> TopicFacts | None:
        return self._by_id.get(topic_id)

    def names(self) -> Iterable[str]:
        return self._by_name.keys()

    def changes_since(self, earlier: ClusterTopics) -> TopicChanges:
        before, now = set(earlier.names()), self._by_name.keys()
        return TopicChanges(
            frozenset(name for name in before | now if earlier.by_name(name) != self.by_name(name)),
            has_new=not before.issuperset(now),
        )
