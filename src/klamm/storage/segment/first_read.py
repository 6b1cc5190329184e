"""Checks data that was on the disk when a log was opened, at its first read.

A start checks only what a crash may have damaged. A flipped bit in an older segment is found here, before the batch is
served. Each byte is checked once, at memory speed. Data that this process wrote, or checked during recovery, is not
checked again.
"""

from __future__ import annotations

from klamm.protocol.errors import KafkaError
from klamm.protocol.record_batch import batch_crc_is_valid, read_batch_header
from klamm.storage.segment.batch_scan import BadBatch
from klamm.storage.segment.segment import Segment

__all__ = ["check_first_read"]


def check_first_read(segment: Segment, position: int, batches: bytes | memoryview) -> None:
    """Checks the CRCs of the whole batches that were read at `position`, unless they were checked before.

    One checked range per segment is remembered: sequential reads extend it, a read elsewhere starts a new range. Raises
    BadBatch.
    """
    end = min(position + len(batches), segment.unchecked_end)
    start, stop = segment.checked
    if start <= position and end <= stop:
        return
    at = 0
    last_offset = -1
    while position + at < end:
        try:
            header = read_batch_header(batches, at)
        except KafkaError as error:
            raise BadBatch(position + at, str(error)) from error
        if not batch_crc_is_valid(batches, at, header):
            raise BadBatch(position + at, f"the CRC of the batch at offset {header.base_offset} does not match")
        if header.base_offset <= last_offset:
            raise BadBatch(position + at, f"a batch at offset {header.base_offset} after one up to {last_offset}")
        last_offset = header.last_offset
        at += header.size_bytes
    checked_end = position + at
    if start <= position <= stop:
        segment.checked = start, max(stop, checked_end)
    elif position < start <= checked_end:
        segment.checked = position, max(stop, checked_end)
    else:
        segment.checked = position, checked_end
    if segment.checked[0] == 0 and segment.checked[1] >= segment.unchecked_end:
        segment.unchecked_end = 0
