"""Shared parts of both cleaning passes: limits on input and output, statistics, abortion."""

from __future__ import annotations

from threading import Event
from typing import NamedTuple

from klamm.protocol.control_batch import read_end_transaction_marker
from klamm.protocol.errors import KafkaError
from klamm.protocol.record_scanner import RecordSpans, scan_records
from klamm.protocol.records import decode_batch
from klamm.storage.cleaner.source import Source, SourceBatch, UncleanableSegment
from klamm.storage.cleaner.throttle import Throttle

__all__ = ["CleaningAborted", "CleaningStatistics", "PassSettings", "is_commit", "open_batch"]


class CleaningAborted(Exception):
    """The cleaning was aborted. Segments that were already swapped in stay; no other file is left."""


class PassSettings(NamedTuple):
    """The limits of a cleaning: its buffers, its throttle, and the event that stops it."""

    buffer_bytes: int
    throttle: Throttle
    stopped: Event

    def account(self, size_bytes: int) -> None:
        """Counts bytes that were read or written, and waits as long as the throttle requires.

        Raises `CleaningAborted`.
        """
        if self.stopped.is_set():
            raise CleaningAborted
        self.throttle.use(size_bytes, self.stopped)


class CleaningStatistics:
    """What one cleaning has read and written so far."""

    __slots__ = ("bytes_read", "bytes_written", "keys", "records_read", "records_without_key", "records_written")

    def __init__(self) -> None:
        self.keys = 0
        self.bytes_read = 0
        self.bytes_written = 0
        self.records_read = 0
        self.records_written = 0
        self.records_without_key = 0


def open_batch(source: Source, batch: SourceBatch) -> RecordSpans:
    """Returns the positions of the records in the batch. Raises `UncleanableSegment`."""
    try:
        return scan_records(batch.data, 0, batch.header)
    except KafkaError as error:
        raise _uncleanable(source, batch, error) from error


def is_commit(source: Source, batch: SourceBatch) -> bool | None:
    """Returns True if a control batch commits, False if it aborts, None if it is empty or of another kind.

    Raises `UncleanableSegment`.
    """
    if not batch.header.records_count:
        return None
    try:
        marker = read_end_transaction_marker(decode_batch(batch.data)[0])
    except KafkaError as error:
        raise _uncleanable(source, batch, error) from error
    return None if marker is None else marker.is_commit


def _uncleanable(source: Source, batch: SourceBatch, error: Exception) -> UncleanableSegment:
    position = batch.end - batch.header.size_bytes
    return UncleanableSegment(f"{source.path} can't be cleaned at position {position}: {error}")
