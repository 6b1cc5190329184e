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

    def replay(self, key: Message, value: Message | None) -> str:
        """Applies one record; returns the group id in its key. The first record that is no tombstone creates the group.

        A tombstone for something that does not exist does nothing.
        """
        group_id: str = key.group_id  # type: ignore[attr-defined]
        group = self.groups.get(group_id)
        if group is None:
            if value is None:
                return group_id
            group = self.groups[group_id] = ConsumerGroup(group_id, self.index)
        if value is None and type(key) is ConsumerGroupMetadataKey:
            self.drop(group_id)
        else:
            REPLAY[type(key)](group, key, value)
        return group_id

    def drop(self, group_id: str) -> None:
        """Removes an existing group, because it has ended, or because a record of another kind has its id now."""
        self.groups.pop(group_id).forget_subscriptions()
