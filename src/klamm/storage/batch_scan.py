"""Walking the batches of a log file from a position on, reading ahead in chunks instead of one read for a header."""

from __future__ import annotations

import os
from collections.abc import Iterator
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from klamm.protocol.errors import KafkaError
from klamm.protocol.record_batch import (
    HEADER_SIZE_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
    batch_crc_is_valid,
    read_batch_header,
)

__all__ = ["BadBatch", "BatchBounds", "ScannedBatch", "check_batches", "scan_bounds", "scan_headers"]

_MINIMUM_BATCH_LENGTH: Final = HEADER_SIZE_BYTES - LOG_OVERHEAD_BYTES
_unpack_bounds: Final = Struct(">qi11xi").unpack_from
_new_bounds: Final = tuple.__new__

SCAN_BYTES: Final = 16 * 1024
"""Read ahead when only headers are wanted: a few index intervals."""

CHECK_BYTES: Final = 1024 * 1024
"""Read ahead when every byte is checked."""


class ScannedBatch(NamedTuple):
    """A batch in a log file."""

    position: int
    header: BatchHeader


class BatchBounds(NamedTuple):
    """Where a batch lies in a log file, and its offsets."""

    position: int
    end: int
    base_offset: int
    last_offset: int


class BadBatch(Exception):
    """The file holds no valid batch at `position`; the text says why."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(reason)
        self.position = position


def scan_bounds(descriptor: int, start: int, end: int) -> Iterator[BatchBounds]:
    """As `scan_headers`, in less time: of the headers only the length and the offsets are read."""
    position = start
    chunk = b""
    chunk_start = start
    while position < end:
        at = position - chunk_start
        if at + HEADER_SIZE_BYTES > len(chunk):
            chunk = os.pread(descriptor, min(SCAN_BYTES, end - position), position)
            chunk_start = position
            at = 0
        try:
            base_offset, batch_length, last_offset_delta = _unpack_bounds(chunk, at)
        except struct_error:
            raise BadBatch(position, f"{len(chunk) - at} bytes are too few for a record batch") from None
        batch_end = position + batch_length + LOG_OVERHEAD_BYTES
        if batch_length < _MINIMUM_BATCH_LENGTH or batch_end > end or last_offset_delta < 0:
            _header(chunk, at, position)
            raise BadBatch(position, f"a batch of {batch_end - position} bytes in the last {end - position} bytes")
        yield _new_bounds(BatchBounds, (position, batch_end, base_offset, base_offset + last_offset_delta))
        position = batch_end


def scan_headers(descriptor: int, start: int, end: int) -> Iterator[ScannedBatch]:
    """The batches between two positions; `start` must be that of a batch.

    Only headers are looked at. Raises `BadBatch` where there is no header or the batch reaches beyond `end`, OSError.
    """
    position = start
    chunk = b""
    chunk_start = start
    while position < end:
        at = position - chunk_start
        if at + HEADER_SIZE_BYTES > len(chunk):
            chunk = os.pread(descriptor, min(SCAN_BYTES, end - position), position)
            chunk_start = position
            at = 0
        header = _header(chunk, at, position)
        size = header.batch_length + LOG_OVERHEAD_BYTES
        if position + size > end:
            raise BadBatch(position, f"a batch of {size} bytes in the last {end - position} bytes")
        yield ScannedBatch(position, header)
        position += size


def check_batches(descriptor: int, end: int, start: int = 0) -> Iterator[ScannedBatch]:
    """The batches between two positions, each with its CRC checked.

    Raises `BadBatch` at the first that is cut short or not what was written, OSError.
    """
    position = start
    chunk = memoryview(b"")
    chunk_start = start
    while position < end:
        at = position - chunk_start
        remaining = len(chunk) - at
        wanted = HEADER_SIZE_BYTES
        if remaining >= HEADER_SIZE_BYTES:
            wanted = _header(chunk, at, position).batch_length + LOG_OVERHEAD_BYTES
        if wanted > remaining and remaining < end - position:
            if wanted > end - position:
                raise BadBatch(position, f"a batch of {wanted} bytes in the last {end - position} bytes")
            chunk = memoryview(os.pread(descriptor, min(max(CHECK_BYTES, wanted), end - position), position))
            if len(chunk) < wanted:
                raise BadBatch(position, f"only {len(chunk)} bytes could be read")
            chunk_start = position
            continue
        header = _header(chunk, at, position)
        if wanted > remaining:
            raise BadBatch(position, f"a batch of {wanted} bytes in the last {remaining} bytes")
        if not batch_crc_is_valid(chunk, at, header):
            raise BadBatch(position, f"the CRC of the batch at offset {header.base_offset} does not match its bytes")
        yield ScannedBatch(position, header)
        position += wanted


def _header(chunk: bytes | memoryview, at: int, position: int) -> BatchHeader:
    try:
        header = read_batch_header(chunk, at)
    except KafkaError as error:
        raise BadBatch(position, error.message or "no record batch") from error
    if header.magic != MAGIC:
        raise BadBatch(position, f"a batch of magic {header.magic}")
    if header.last_offset_delta < 0:
        raise BadBatch(position, f"a batch whose last offset delta is {header.last_offset_delta}")
    return header
