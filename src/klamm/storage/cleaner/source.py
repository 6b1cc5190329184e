"""Reads the segments to clean: whole batches, with their CRCs checked.

A rewritten batch gets a new CRC, computed from the bytes that were read. Without the check, damaged bytes would get a
valid CRC. Apache Kafka's cleaner does not check.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from klamm.protocol.errors import KafkaError
from klamm.protocol.record_batch import (
    HEADER_SIZE_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
    batch_crc_is_valid,
    read_batch_header,
)
from klamm.protocol.types import Offset
from klamm.storage.segment.batch_scan import BadBatch

__all__ = ["Source", "SourceBatch", "UncleanableSegment", "open_source", "read_batches"]


class UncleanableSegment(Exception):
    """The segment holds something that can't be cleaned. The text names the file, the position and the reason."""


class Source(NamedTuple):
    """A segment to clean. `end_offset` is the base offset of the next segment."""

    path: Path
    base_offset: Offset
    end_offset: Offset
    size_bytes: int


class SourceBatch(NamedTuple):
    """A batch: its header, its bytes, and its end position in the file."""

    header: BatchHeader
    data: memoryview
    end: int


@contextmanager
def open_source(path: Path) -> Iterator[int]:
    """Yields a descriptor of the file, opened for sequential reading, and closes it afterwards. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        yield descriptor
    finally:
        os.close(descriptor)


def read_batches(
    descriptor: int, source: Source, buffer_bytes: int, on_read: Callable[[int], None], start: int = 0
) -> Iterator[SourceBatch]:
    """Yields the batches from position `start` on. Holds `buffer_bytes` in memory, more only for a larger batch.

    `on_read` is called with the size of every read before its bytes are checked; an exception from it ends the
    iteration. Raises `UncleanableSegment`, OSError.
    """
    position = chunk_start = start
    chunk = memoryview(b"")
    expected_offset = source.base_offset
    while position < source.size_bytes:
        at = position - chunk_start
        available = len(chunk) - at
        remaining = source.size_bytes - position
        wanted = HEADER_SIZE_BYTES
        try:
            if available >= HEADER_SIZE_BYTES:
                header = read_batch_header(chunk, at)
                wanted = header.batch_length + LOG_OVERHEAD_BYTES
            if wanted > remaining:
                raise BadBatch(position, f"a batch of {wanted} bytes in the last {remaining} bytes")
            if wanted > available:
                chunk = memoryview(os.pread(descriptor, min(max(buffer_bytes, wanted), remaining), position))
                on_read(len(chunk))
                chunk_start = position
                if len(chunk) < wanted:
                    raise BadBatch(position, f"only {len(chunk)} bytes could be read")
                continue
            _check(chunk, at, position, header)
            if header.base_offset < expected_offset or header.next_offset > source.end_offset:
                raise BadBatch(position, f"a batch at offset {header.base_offset} where {expected_offset} is due")
        except (BadBatch, KafkaError) as error:
            raise UncleanableSegment(f"{source.path} is damaged at position {position}: {error}") from error
        position += wanted
        expected_offset = header.next_offset
        yield SourceBatch(header, chunk[at : at + wanted], position)


def _check(chunk: memoryview, at: int, position: int, header: BatchHeader) -> None:
    if header.magic != MAGIC or header.last_offset_delta < 0:
        raise BadBatch(position, f"a batch of magic {header.magic} and last offset delta {header.last_offset_delta}")
    if not batch_crc_is_valid(chunk, at, header):
        raise BadBatch(position, f"the CRC of the batch at offset {header.base_offset} does not match its bytes")
