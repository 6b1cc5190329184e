"""What one task reads."""

from __future__ import annotations

from typing import NamedTuple

from klamm.protocol.types import Offset, TopicId, TopicPartition

__all__ = ["OffsetRange"]


class OffsetRange(NamedTuple):
    """The offsets [start, end) of one partition."""

    topic_partition: TopicPartition
    start: Offset
    end: Offset
    topic_id: TopicId | None = None
    """The topic that was planned for: one of the same name that was made since is another. None if it has no id."""
