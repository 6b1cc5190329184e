"""The groups of a shard, of all kinds: finds a group, and the kind that decides on it."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.core.group.events import GroupType
from klamm.core.group.group import Group
from klamm.core.group.group_kind import KindShard
from klamm.core.group.group_store import GroupStore

__all__ = ["GroupRegistry"]


class GroupRegistry:
    """All groups; `shards` are the kinds, in the order of the table."""

    __slots__ = ("_by_type", "_first", "_first_groups", "_others", "shards", "store")

    def __init__(self, store: GroupStore, shards: Sequence[KindShard]) -> None:
        self.store = store
        self.shards = shards
        self._first = shards[0]
        self._first_groups = shards[0].store.groups
        self._others = tuple((shard.store.groups, shard) for shard in shards[1:])
        self._by_type = {shard.store.group_type: shard for shard in shards}

    def kind_of(self, group_id: str) -> KindShard:
        """Returns the kind that has the group; if there is no such group, the first kind."""
        if group_id not in self._first_groups:
            for groups, shard in self._others:
                if group_id in groups:
                    return shard
        return self._first

    def find(self, group_id: str) -> Group | None:
        """Returns the group with that id, of any kind, or None."""
        return self.kind_of(group_id).find(group_id)

    def peek(self, group_id: str) -> Group:
        """Returns an existing group, for reading only. Cheap in memory, for iterating over very many groups."""
        return self.kind_of(group_id).peek(group_id)

    def is_known(self, group_id: str) -> bool:
        """Returns whether the group exists, of any kind."""
        return self.store.is_known(group_id)

    def member_count(self, group_id: str) -> int:
        """Returns the number of members of an existing group. Cheap, for iterating over very many groups."""
        return self.kind_of(group_id).member_count(group_id)

    def forget(self, group_type: GroupType, group_id: str) -> None:
        """Drops the volatile state that this kind has of a group that has ended."""
        self._by_type[group_type].forget(group_id)
