"""What both passes of a cleaning share: bounds on what they read and write, what they count, how they end early."""

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
    """The cleaning was called off; nothing of it is left."""


class PassSettings(NamedTuple):
    """What bounds a cleaning: its buffers, its input and output, and whoever may stop it."""

    buffer_bytes: int
    throttle: Throttle
    stopped: Event

    def account(self, size_bytes: int) -> None:
        """Notes that bytes were read or written, and waits as the throttle says. Raises `CleaningAborted`."""
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
    """Where the records of the batch lie. Raises `UncleanableSegment`."""
    try:
        return scan_records(batch.data, 0, batch.header)
    except KafkaError as error:
        raise _uncleanable(source, batch, error) from error


def is_commit(source: Source, batch: SourceBatch) -> bool | None:
    """Whether a control batch commits (True) or aborts (False); None if it is empty or does something else.

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
