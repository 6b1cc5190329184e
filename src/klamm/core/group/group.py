"""The interface of a group of either protocol, for the code that handles offsets, listings and deletion."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.core.group.events import GroupType
from klamm.protocol.types import Millis

__all__ = ["Group"]


class Group(Protocol):
    """A classic group or a consumer group. After Apache Kafka's `Group`."""

    @property
    def group_id(self) -> str:
        """The group id."""

    @property
    def group_type(self) -> GroupType:
        """The protocol of its members."""

    @property
    def epoch(self) -> int:
        """The generation or group epoch."""

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Returns whether a member is subscribed to the topic, or may be if the subscriptions are not readable."""

    @property
    def allows_offset_delete(self) -> bool:
        """Whether single offsets may be deleted: the group is empty, or the coordinator knows its subscriptions."""

    @property
    def may_expire(self) -> bool:
        """Whether offsets may expire at all."""

    @property
    def expires_from_ms(self) -> Millis | None:
        """The start of the retention time of all its offsets; None if each offset's time starts at its commit."""

    def tombstones(self) -> Iterable[CoordinatorRecord]:
        """Returns the records that remove the group, but not its offsets, from the log."""
