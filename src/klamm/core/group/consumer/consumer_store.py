"""The consumer groups in the log (KIP-848): the durable state of the consumer kind."""

from __future__ import annotations

from typing import ClassVar, Final

from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.replay import REPLAY
from klamm.core.group.consumer.topic_index import TopicIndex
from klamm.core.group.events import GroupType
from klamm.protocol.message import Message
from klamm.protocol.schema.consumer_group_metadata_key import ConsumerGroupMetadataKey

__all__ = ["ConsumerStore"]


class ConsumerStore:
    """All consumer groups, and the index of the topics that they read."""

    group_type: ClassVar = GroupType.CONSUMER
    keys: ClassVar[frozenset[type[Message]]] = frozenset(REPLAY)
    group_key: ClassVar[type[Message]] = ConsumerGroupMetadataKey

    __slots__ = ("groups", "index")

    def __init__(self) -> None:
        self.groups: Final[dict[str, ConsumerGroup]] = {}
        self.index: Final = TopicIndex()
        """The groups that read each topic."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConsumerStore):
            return NotImplemented
        return self.groups == other.groups and self.index == other.index

    __hash__ = None  # type: ignore[assignment]

    @staticmethod
    def group_id(key: Message) -> str:
        """Returns the group id in the key of a record."""
        group_id: str = key.group_id  # type: ignore[attr-defined]
        return group_id

    def replay(self, key: Message, value: Message | None) -> bool:
        """Applies one record; the first record that is not a tombstone creates the group. Returns whether it did.

        A tombstone for something that does not exist does nothing.
        """
        group_id: str = key.group_id  # type: ignore[attr-defined]
        group = self.groups.get(group_id)
        is_new = group is None
        if group is None:
            if value is None:
                return False
            group = self.groups[group_id] = ConsumerGroup(group_id, self.index)
        key_type = type(key)
        if value is None and key_type is ConsumerGroupMetadataKey:
            self.drop(group_id)
        else:
            REPLAY[key_type](group, key, value)
        return is_new

    def drop(self, group_id: str) -> None:
        """Removes an existing group, because it has ended, or because a record of another kind has its id now."""
        self.groups.pop(group_id).forget_subscriptions()
