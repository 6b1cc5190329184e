"""The classic groups in the log: the durable state of the classic kind."""

from __future__ import annotations

from typing import ClassVar, Final

from klamm.core.group.classic.group_metadata import NO_METADATA, GroupMetadata, group_metadata
from klamm.core.group.events import GroupType
from klamm.protocol.message import Message
from klamm.protocol.schema.group_metadata_key import GroupMetadataKey
from klamm.protocol.schema.group_metadata_value import GroupMetadataValue

__all__ = ["ClassicStore"]


class ClassicStore:
    """All classic groups, and all simple groups: a group that only ever committed offsets has NO_METADATA."""

    group_type: ClassVar = GroupType.CLASSIC
    keys: ClassVar[frozenset[type[Message]]] = frozenset({GroupMetadataKey})
    group_key: ClassVar[type[Message]] = GroupMetadataKey

    __slots__ = ("groups",)

    def __init__(self) -> None:
        self.groups: Final[dict[str, GroupMetadata]] = {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClassicStore):
            return NotImplemented
        return self.groups == other.groups

    __hash__ = None  # type: ignore[assignment]

    @staticmethod
    def group_id(key: GroupMetadataKey) -> str:
        """Returns the group id in the key of a record."""
        return key.group

    def replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> bool:
        """Applies one record; returns whether the record created its group."""
        if value is None:
            self.groups.pop(key.group, None)
            return False
        is_new = key.group not in self.groups
        self.groups[key.group] = group_metadata(value)
        return is_new

    def drop(self, group_id: str) -> None:
        """Removes an existing group, because a record of another kind has its id now."""
        del self.groups[group_id]

    def add_simple_group(self, group_id: str) -> None:
        """Adds a group that has committed offsets, and no record of its own."""
        self.groups[group_id] = NO_METADATA
