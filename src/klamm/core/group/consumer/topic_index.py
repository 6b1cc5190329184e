"""An index from topics to the groups that read them, to find the groups that a changed topic concerns."""

from __future__ import annotations

from collections.abc import Set
from typing import Final

__all__ = ["TopicIndex"]

_NO_GROUPS: Final[Set[str]] = frozenset()


class TopicIndex:
    """Group ids by the name of a topic that one of the group's members reads, by name or by regular expression."""

    __slots__ = ("_groups", "regex_groups")

    def __init__(self) -> None:
        self._groups: dict[str, set[str]] = {}
        self.regex_groups: set[str] = set()
        """Groups with a member that subscribed by regular expression, which a new topic may match."""

    def add(self, topic: str, group_id: str) -> None:
        """Adds the group to the readers of the topic."""
        self._groups.setdefault(topic, set()).add(group_id)

    def remove(self, topic: str, group_id: str) -> None:
        """Removes the group from the readers of the topic."""
        groups = self._groups[topic]
        groups.discard(group_id)
        if not groups:
            del self._groups[topic]

    def groups_of(self, topic: str) -> Set[str]:
        """Returns the groups that read the topic."""
        return self._groups.get(topic, _NO_GROUPS)

    def read_of(self, topics: Set[str]) -> list[str]:
        """Returns those of the topics that a group reads, sorted; fast if there are few of either."""
        return sorted(self._groups.keys() & topics)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TopicIndex):
            return NotImplemented
        return self._groups == other._groups and self.regex_groups == other.regex_groups

    __hash__ = None  # type: ignore[assignment]
