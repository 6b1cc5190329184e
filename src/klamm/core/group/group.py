"""What offsets, lists and deletion need to know of a group, whichever protocol its members speak."""

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
        """Its id."""

    @property
    def group_type(self) -> GroupType:
        """Which protocol its members speak."""

    @property
    def epoch(self) -> int:
        """Its generation or group epoch."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic, as far as that is known."""

    @property
    def allows_offset_delete(self) -> bool:
        """Whether single offsets may be deleted: nobody reads any, or it is known which topics are read."""

    @property
    def may_expire(self) -> bool:
        """Whether offsets may expire at all."""

    @property
    def expires_from_ms(self) -> Millis | None:
        """When the time of all its offsets began to run; None if each one's runs from its commit."""

    def tombstones(self) -> Iterable[CoordinatorRecord]:
        """The records that take the group, but not its offsets, out of the log."""
