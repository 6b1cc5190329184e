"""Walks the batches of a log file, reading ahead in chunks instead of once per header."""

from __future__ import annotations

import os
from collections.abc import Iterator
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from klamm.protocol.checksum import crc32c
from klamm.protocol.errors import KafkaError
from klamm.protocol.record_batch import (
    BATCH_HEADER,
    CRC_START,
    HEADER_SIZE_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
    read_batch_header,
)

__all__ = ["BadBatch", "BatchBounds", "ScannedBatch", "check_batches", "scan_bounds", "scan_headers"]

_MINIMUM_BATCH_LENGTH: Final = HEADER_SIZE_BYTES - LOG_OVERHEAD_BYTES
_unpack_bounds: Final = Struct(">qi11xi").unpack_from
_unpack_header: Final = BATCH_HEADER.unpack_from
_new_bounds: Final = tuple.__new__
_new_header: Final = tuple.__new__
_new_batch: Final = tuple.__new__
_LENGTH, _MAGIC, _CRC, _LAST_OFFSET_DELTA = map(
    BatchHeader._fields.index, ("batch_length", "magic", "crc", "last_offset_delta")
)

_SCAN_BYTES: Final = 16 * 1024
"""Bytes to read ahead when only headers are needed: a few index intervals."""

_CHECK_BYTES: Final = 1024 * 1024
"""Bytes to read ahead when every byte is checked."""


class ScannedBatch(NamedTuple):
    """A batch in a log file."""

    position: int
    header: BatchHeader


class BatchBounds(NamedTuple):
    """The position of a batch in a log file, and its offsets."""

    position: int
    end: int
    base_offset: int
    last_offset: int


class BadBatch(Exception):
    """The file holds no valid batch at `position`. The text gives the reason."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(reason)
        self.position = position


def scan_bounds(descriptor: int, start: int, end: int) -> Iterator[BatchBounds]:
    """Yields the batches as `scan_headers` does, but faster: it decodes only the length and the offsets of each
    header."""
    position = start
    chunk = b""
    chunk_start = start
    while position < end:
        at = position - chunk_start
        if at + HEADER_SIZE_BYTES > len(chunk):
            chunk = os.pread(descriptor, min(_SCAN_BYTES, end - position), position)
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
    """Yields the batches between two positions; a batch must begin at `start`.

    Only headers are checked. Raises `BadBatch` if there is no header or the batch extends beyond `end`, OSError.
    """
    position = start
    chunk = b""
    chunk_start = start
    while position < end:
        at = position - chunk_start
        if at + HEADER_SIZE_BYTES > len(chunk):
            chunk = os.pread(descriptor, min(_SCAN_BYTES, end - position), position)
            chunk_start = position
            at = 0
        header = _header(chunk, at, position)
        size = header.batch_length + LOG_OVERHEAD_BYTES
        if position + size > end:
            raise BadBatch(position, f"a batch of {size} bytes in the last {end - position} bytes")
        yield ScannedBatch(position, header)
        position += size


def check_batches(descriptor: int, end: int, start: int = 0) -> Iterator[ScannedBatch]:
    """Yields the batches between two positions, each with its CRC checked.

    Raises `BadBatch` at the first batch that is incomplete or has a wrong CRC, OSError.
    """
    # A log may hold millions of small batches, so this loop is inlined and avoids function calls.
    position = start
    chunk = memoryview(b"")
    chunk_start = start
    while position < end:
        at = position - chunk_start
        try:
            header = _new_header(BatchHeader, _unpack_header(chunk, at))
        except struct_error:
            if end - position > len(chunk) - at:
                chunk = _read_on(descriptor, position, end, HEADER_SIZE_BYTES)
                chunk_start = position
                continue
            header = _header(chunk, at, position)
        if header[_MAGIC] != MAGIC or header[_LENGTH] < _MINIMUM_BATCH_LENGTH or header[_LAST_OFFSET_DELTA] < 0:
            header = _header(chunk, at, position)
        size = header[_LENGTH] + LOG_OVERHEAD_BYTES
        stop = at + size
        if stop > len(chunk):
            if size > end - position:
                raise BadBatch(position, f"a batch of {size} bytes in the last {end - position} bytes")
            chunk = _read_on(descriptor, position, end, size)
            chunk_start = position
            continue
        if crc32c(chunk[at + CRC_START : stop], 0) != header[_CRC]:
            raise BadBatch(position, f"the CRC of the batch at offset {header.base_offset} does not match its bytes")
        yield _new_batch(ScannedBatch, (position, header))
        position += size


def _read_on(descriptor: int, position: int, end: int, wanted: int) -> memoryview:
    """Returns at least `wanted` bytes from `position` on, fewer only up to `end`. Raises BadBatch."""
    chunk = os.pread(descriptor, min(max(_CHECK_BYTES, wanted), end - position), position)
    if len(chunk) < min(wanted, end - position):
        raise BadBatch(position, f"only {len(chunk)} bytes could be read")
    return memoryview(chunk)


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
