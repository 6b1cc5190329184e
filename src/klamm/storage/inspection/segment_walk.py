"""Walks through a segment that may be damaged: yields every intact batch and the damaged ranges between them.

After an unreadable batch, the next one is searched byte by byte: a plausible header with a valid CRC. A batch found
this way was really written, but it may not be the next one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from klamm.protocol.errors import KafkaError
from klamm.protocol.record_batch import HEADER_SIZE_BYTES, MAGIC, BatchHeader, batch_crc_is_valid, read_batch_header
from klamm.storage.segment.batch_scan import BadBatch, check_batches

__all__ = ["BadRange", "GoodBatch", "walk"]

_MAGIC_AT: Final = 16
_SEARCH_BYTES: Final = 1024 * 1024
_KNOWN_ATTRIBUTES: Final = 0x7F


class GoodBatch(NamedTuple):
    """A batch with a valid CRC and a plausible offset."""

    position: int
    header: BatchHeader

    @property
    def end(self) -> int:
        """The position of the next batch."""
        return self.position + self.header.size_bytes


class BadRange(NamedTuple):
    """Bytes from `position` up to `end` that are not a batch, or are a batch that can't be at this place."""

    position: int
    end: int
    reason: str


def walk(
    descriptor: int, end: int, *, first_offset: int = 0, offset_limit: int | None = None
) -> Iterator[GoodBatch | BadRange]:
    """Yields all batches and damaged ranges of the file up to `end`, in order.

    Offsets must rise from `first_offset` and stay below `offset_limit` (the base offset of the next segment), and
    leader epochs must not fall: the CRC covers neither. Raises OSError.
    """
    position = 0
    expected = first_offset
    epoch = -1
    while position < end:
        bad: BadRange | None = None
        try:
            for at, header in check_batches(descriptor, end, position):
                reason = _why_misplaced(header, expected, offset_limit, epoch)
                if reason is not None:
                    bad = BadRange(at, at + header.size_bytes, reason)
                    break
                yield GoodBatch(at, header)
                expected = header.next_offset
                epoch = max(epoch, header.partition_leader_epoch)
                position = at + header.size_bytes
        except BadBatch as error:
            bad = _bad_range(descriptor, error, end, expected, offset_limit)
        if bad is None:
            return
        yield bad
        position = bad.end


def _why_misplaced(header: BatchHeader, expected: int, offset_limit: int | None, epoch: int) -> str | None:
    if header.base_offset < expected:
        return f"a batch at offset {header.base_offset} where {expected} or more is due"
    if offset_limit is not None and header.last_offset >= offset_limit:
        return f"a batch up to offset {header.last_offset}, but the next segment begins at {offset_limit}"
    if 0 <= header.partition_leader_epoch < epoch:
        return f"a batch of leader epoch {header.partition_leader_epoch} after one of {epoch}"
    return None


def _bad_range(descriptor: int, error: BadBatch, end: int, expected: int, offset_limit: int | None) -> BadRange:
    """Returns the damaged range at the error's position.

    It is one batch if a batch or the end of the file follows it, otherwise everything up to the next batch.
    """
    position = error.position
    header = _header_at(descriptor, position)
    if header is not None and header.magic == MAGIC:
        behind = position + header.size_bytes
        if behind == end or (behind < end and _is_batch(descriptor, behind, end, expected, offset_limit)):
            return BadRange(position, behind, str(error))
    return BadRange(position, _next_batch(descriptor, position + 1, end, expected, offset_limit), str(error))


def _header_at(descriptor: int, position: int) -> BatchHeader | None:
    try:
        return read_batch_header(os.pread(descriptor, HEADER_SIZE_BYTES, position))
    except KafkaError:
        return None


def _is_batch(descriptor: int, position: int, end: int, expected: int, offset_limit: int | None) -> bool:
    header = _header_at(descriptor, position)
    if (
        header is None
        or header.magic != MAGIC
        or position + header.size_bytes > end
        or header.attributes & ~_KNOWN_ATTRIBUTES
        or header.last_offset_delta < 0
        or header.records_count < 0
        or header.base_offset < expected
        or (offset_limit is not None and header.last_offset >= offset_limit)
    ):
        return False
    return batch_crc_is_valid(os.pread(descriptor, header.size_bytes, position), 0, header)


def _next_batch(descriptor: int, start: int, end: int, expected: int, offset_limit: int | None) -> int:
    """Returns the position of the first batch from `start` on, `end` if there is none."""
    position = start
    while position + HEADER_SIZE_BYTES <= end:
        chunk = os.pread(descriptor, min(_SEARCH_BYTES, end - position), position)
        at = chunk.find(MAGIC, _MAGIC_AT)
        while at >= 0:
            if _is_batch(descriptor, position + at - _MAGIC_AT, end, expected, offset_limit):
                return position + at - _MAGIC_AT
            at = chunk.find(MAGIC, at + 1)
        if len(chunk) <= _MAGIC_AT:
            break
        position += len(chunk) - _MAGIC_AT
    return end
