"""What the read of one Fetch request returns: the answers for partitions, in the order of the response."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from klamm.protocol.fetch_messages import FetchPartitionResponse
from klamm.protocol.record_batch import iterate_batches
from klamm.storage.log.stored_batches import StoredBatches

if TYPE_CHECKING:
    from klamm.broker.partitions.fetch_sessions import CachedPartition

__all__ = ["PartitionAnswer", "ReadResult", "Reading", "end_of", "size_of"]

PartitionAnswer: TypeAlias = "tuple[CachedPartition, FetchPartitionResponse]"


class ReadResult(NamedTuple):
    """The answers of one read, and the values that decide whether the request waits for more."""

    answers: list[PartitionAnswer]
    size_bytes: int
    is_final: bool
    """Whether the request must not wait: a read failed, a client's log diverges, a consumer should read from another
    replica, or there is no partition to read."""


class Reading:
    """The state of a read that proceeds some partitions at a time."""

    __slots__ = ("answers", "is_final", "nameless", "size_bytes", "unchanged", "unknown")

    def __init__(self) -> None:
        self.answers: list[PartitionAnswer] = []
        self.nameless: list[PartitionAnswer] = []
        self.unknown: list[PartitionAnswer] = []
        self.unchanged = 0
        """Number of partitions without an answer: nothing has changed since the last answer to the session."""
        self.size_bytes = 0
        self.is_final = False

    def result(self) -> ReadResult:
        """Returns all answers; unknown topic ids and unknown partitions come last."""
        is_final = self.is_final or not (self.answers or self.unchanged)
        answers = self.answers
        if self.nameless or self.unknown:
            answers = [*answers, *self.nameless, *self.unknown]
        return ReadResult(answers, self.size_bytes, is_final)


def size_of(response: FetchPartitionResponse) -> int:
    """Returns the bytes of the records in an answer of `FetchRead`."""
    records = response.records
    return 0 if records is None or isinstance(records, list) else len(records)


def end_of(response: FetchPartitionResponse, fetch_offset: int) -> int:
    """Returns the offset behind the records of an answer; the fetch offset if it has none."""
    end = fetch_offset
    records = response.records
    if isinstance(records, StoredBatches):
        return records.next_offset
    if isinstance(records, bytes | memoryview):
        for _, header in iterate_batches(records):
            end = header.next_offset
    return end
