"""The groups of a shard, each in the round it is in now.

The store knows every group that exists; a round is made from it when somebody first asks, and is kept while the group
exists.
"""

from __future__ import annotations

from collections.abc import Iterator

from klamm.core.group.classic.classic_group import ClassicGroup
from klamm.core.group.classic.group_state import GroupState
from klamm.core.group.group import Group
from klamm.core.group.group_store import GroupStore

__all__ = ["GroupRegistry"]


class GroupRegistry:
    """Volatile rounds over the durable store."""

    __slots__ = ("_rounds", "store")

    def __init__(self, store: GroupStore) -> None:
        self.store = store
        self._rounds: dict[str, ClassicGroup] = {}

    def find(self, group_id: str) -> ClassicGroup | None:
        """The classic group, or None if there is none of that id."""
        group = self._rounds.get(group_id)
        if group is None and group_id in self.store.groups:
            group = self._rounds[group_id] = self._from_store(group_id)
        return group

    def find_any(self, group_id: str) -> Group | None:
        """The group, whichever protocol its members speak, or None if there is none of that id."""
        return self.store.consumer_groups.get(group_id) or self.find(group_id)

    def peek(self, group_id: str) -> Group:
        """The group, which exists, for a look only: nothing is kept of a round that nobody has asked for before."""
        return self.store.consumer_groups.get(group_id) or self._rounds.get(group_id) or self._from_store(group_id)

    def summary(self, group_id: str) -> tuple[GroupState, str | None]:
        """State and protocol type of a group, which exists. Cheap, for lists of very many groups."""
        group = self._rounds.get(group_id)
        if group is not None:
            return group.state, group.protocol_type
        metadata = self.store.groups[group_id]
        return GroupState.STABLE if metadata.members else GroupState.EMPTY, metadata.protocol_type

    def is_known(self, group_id: str) -> bool:
        """Whether there is such a group, of either protocol."""
        return group_id in self.store.groups or group_id in self.store.consumer_groups

    def member_count(self, group_id: str) -> int:
        """How many members a group has that exists. Cheap, for looks at very many groups."""
        consumer_group = self.store.consumer_groups.get(group_id)
        if consumer_group is not None:
            return len(consumer_group.members)
        group = self._rounds.get(group_id)
        return len(self.store.groups[group_id].members if group is None else group.members)

    def install(self, group: ClassicGroup) -> None:
        """Keep the round of a group that has just come into being."""
        self._rounds[group.group_id] = group

    def forget(self, group_id: str) -> None:
        """The group is gone."""
        self._rounds.pop(group_id, None)

    def rounds(self) -> Iterator[ClassicGroup]:
        """All rounds that somebody has asked for."""
        return iter(self._rounds.values())

    def _from_store(self, group_id: str) -> ClassicGroup:
        return ClassicGroup.from_metadata(group_id, self.store.groups[group_id])
