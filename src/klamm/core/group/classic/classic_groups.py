"""The classic groups of a shard, with the volatile state (the round) of each.

The store contains every group. A round is created from the store at the first access, and is kept while the group
exists.
"""

from __future__ import annotations

from collections.abc import Iterator

from klamm.core.group.classic.classic_group import ClassicGroup
from klamm.core.group.classic.classic_store import ClassicStore
from klamm.core.group.classic.group_state import GroupState

__all__ = ["ClassicGroups"]


class ClassicGroups:
    """The volatile rounds of classic groups, on top of the durable store."""

    __slots__ = ("_rounds", "store")

    def __init__(self, store: ClassicStore) -> None:
        self.store = store
        self._rounds: dict[str, ClassicGroup] = {}

    def find(self, group_id: str) -> ClassicGroup | None:
        """Returns the classic group with that id, or None."""
        group = self._rounds.get(group_id)
        if group is None and group_id in self.store.groups:
            group = self._rounds[group_id] = self._from_store(group_id)
        return group

    def peek(self, group_id: str) -> ClassicGroup:
        """Returns an existing group, for reading only: a round that has to be created is not kept."""
        return self._rounds.get(group_id) or self._from_store(group_id)

    def summary(self, group_id: str) -> tuple[GroupState, str | None]:
        """Returns state and protocol type of an existing group. Cheap, for lists of very many groups."""
        group = self._rounds.get(group_id)
        if group is not None:
            return group.state, group.protocol_type
        metadata = self.store.groups[group_id]
        return GroupState.STABLE if metadata.members else GroupState.EMPTY, metadata.protocol_type

    def member_count(self, group_id: str) -> int:
        """Returns the number of members of an existing group. Cheap, for iterating over very many groups."""
        group = self._rounds.get(group_id)
        return len(self.store.groups[group_id].members if group is None else group.members)

    def install(self, group: ClassicGroup) -> None:
        """Keeps the round of a group that was just created."""
        self._rounds[group.group_id] = group

    def forget(self, group_id: str) -> None:
        """Drops the round of a group that is deleted."""
        self._rounds.pop(group_id, None)

    def rounds(self) -> Iterator[ClassicGroup]:
        """Iterates over all rounds that were created."""
        return iter(self._rounds.values())

    def _from_store(self, group_id: str) -> ClassicGroup:
        return ClassicGroup.from_metadata(group_id, self.store.groups[group_id])
