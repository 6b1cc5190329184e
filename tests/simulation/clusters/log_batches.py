"""The batches of a log, for comparisons of replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from klamm.protocol.record_batch import iterate_batches
from klamm.protocol.types import Offset

if TYPE_CHECKING:
    from klamm.storage.log.log import Log

__all__ = ["StoredBatch", "batches_of"]


class StoredBatch(NamedTuple):
    """A batch in a log."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    checksum: int


def batches_of(log: Log, start: int, end: int) -> list[StoredBatch]:
    """Returns the batches from the one that holds offset `start` to the one that holds the offset before `end`. Both
    offsets are in the log."""
    found: list[StoredBatch] = []
    offset = start
    while offset < end:
        part = log.read(Offset(offset), 1_000_000, upper_bound=log.log_end_offset, minimum_one_batch=True)
        before = offset
        for position, header in iterate_batches(part):
            if header.base_offset >= end:
                return found
            content = bytes(part[position : position + header.size_bytes])
            offset = int(header.next_offset)
            found.append(
                StoredBatch(int(header.base_offset), offset, int(header.partition_leader_epoch), crc32(content))
            )
        if offset == before:
            break
    return found
