"""Which groups read which topics, so that a change of a topic finds the groups that it concerns."""

from __future__ import annotations

from collections.abc import Iterable, Set

__all__ = ["TopicIndex"]


class TopicIndex:
    """Group ids by the name of a topic that one of the group's members reads, by name or by regular expression."""

    __slots__ = ("_groups", "regex_groups")

    def __init__(self) -> None:
        self._groups: dict[str, set[str]] = {}
        self.regex_groups: set[str] = set()
        """Groups with a member that subscribed by regular expression: a new topic may concern them."""

    def add(self, topic: str, group_id: str) -> None:
        """The group reads the topic."""
        self._groups.setdefault(topic, set()).add(group_id)

    def remove(self, topic: str, group_id: str) -> None:
        """The group reads the topic no more."""
        groups = self._groups[topic]
        groups.discard(group_id)
        if not groups:
            del self._groups[topic]

    def items(self) -> Iterable[tuple[str, Set[str]]]:
        """All topics that somebody reads, with their groups."""
        return self._groups.items()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TopicIndex):
            return NotImplemented
        return self._groups == other._groups and self.regex_groups == other.regex_groups

    __hash__ = None  # type: ignore[assignment]
