"""The runtime's state of one partition that this broker leads."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, TypeVar

from klamm.core.coordinator.shard_contract import DeletedTopic, Result, Shard, Ticket
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.message import Message
from klamm.protocol.types import LeaderEpoch, Offset, PartitionIndex
from klamm.runtime.alarms import Alarms
from klamm.runtime.linger import Linger
from klamm.runtime.ports import Cancellable
from klamm.runtime.skipped_records import SkippedRecords

__all__ = ["LedPartition", "PartitionState", "Waiting"]

S = TypeVar("S", bound=Shard)

_logger = logging.getLogger(__name__)

_START: Final = Offset(0)


class PartitionState(Enum):
    """The stages of a partition from loading to closing; an ACTIVE partition answers requests."""

    LOADING = "loading"
    STARTING = "starting"
    """The log is read, and the shard derives its volatile state; requests are still refused."""
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


@dataclass(slots=True, eq=False)
class Waiting:
    """A decision whose replies are held back until everything below `offset` is committed."""

    offset: Offset
    result: Result
    ticket: Ticket | None
    """The ticket of the decided request; None for a decision without a request."""
    refuse: Callable[[ErrorCode], Message] | None
    deadline_ms: float


@dataclass(slots=True, eq=False)
class LedPartition(Generic[S]):
    """One partition, its shard, and the decisions that wait for its log."""

    partition: PartitionIndex
    leader_epoch: LeaderEpoch
    shard: S
    alarms: Alarms
    linger: Linger
    state: PartitionState = PartitionState.LOADING
    log_end_offset: Offset = _START
    high_watermark: Offset = _START
    lingering: list[Waiting] = field(default_factory=list)
    """Decisions whose records the shard holds back, in the order of the requests."""
    waiting: deque[Waiting] = field(default_factory=deque)
    deleted_topics: list[DeletedTopic] = field(default_factory=list)
    """Topics that were deleted while the partition was loading."""
    high_watermark_listener: Cancellable | None = None
    skipped: SkippedRecords | None = None
    """The records that were skipped when the log was read."""
    is_appending: bool = False
    refused_with: ErrorCode | None = None
    """The code with which the log refused the last append; None if the append succeeded."""

    def note_refusal(self, error: KafkaError) -> None:
        """Logs that an append was refused, once for all appends in a row with the same code.

        Below `min.insync.replicas` the log refuses the records of each request.
        """
        if self.refused_with is not error.code:
            self.refused_with = error.code
            _logger.warning("partition %d: append failed: %s", self.partition, error)

    @property
    def is_open(self) -> bool:
        """Whether the shard may decide."""
        return self.state is PartitionState.ACTIVE or self.state is PartitionState.STARTING

    @property
    def is_committed(self) -> bool:
        """Whether the whole log is committed and no decision waits, so that an answer may go out at once."""
        return self.high_watermark >= self.log_end_offset and not self.waiting
