"""A record on its way through a handler: as it was received, and what is known of its attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from klamm.protocol.types import Offset

if TYPE_CHECKING:
    from klamm.core.delivery.partition_lanes import PartitionLanes

__all__ = ["Received", "Work"]


class Received(NamedTuple):
    """A record as the caller has read it. `record` is the caller's; this room does not look into it."""

    offset: Offset
    key: bytes | None
    size_bytes: int
    record: Any


class Work:
    """One record on its way through the handler."""

    __slots__ = (
        "attempts",
        "deadline_ms",
        "is_alone",
        "is_begun",
        "is_finished",
        "lane",
        "last_error",
        "offset",
        "partition",
        "received_ms",
        "record",
        "size_bytes",
    )

    def __init__(  # noqa: PLR0917  # it is called for each record, and names cost time
        self,
        partition: PartitionLanes,
        offset: Offset,
        size_bytes: int,
        record: Any,
        lane: bytes | None,
        now_ms: float,
    ) -> None:
        self.partition = partition
        self.offset = offset
        self.size_bytes = size_bytes
        self.record = record
        self.lane = lane
        self.received_ms = now_ms
        self.attempts = 0
        """How many times the record was begun."""
        self.deadline_ms: float | None = None
        """The end of the time for all attempts.

        The time starts with the first call, or after a failed batch with the first call for this record alone.
        """
        self.is_alone = False
        """Whether the record is not put into a batch with others, because a batch with it failed."""
        self.is_begun = False
        self.is_finished = False
        self.last_error: BaseException | None = None
        """The error of the last attempt, if the record has a deadline. The caller sets it."""

    def is_late(self, now_ms: float) -> bool:
        """Returns whether the record's time is over."""
        return self.deadline_ms is not None and now_ms >= self.deadline_ms
