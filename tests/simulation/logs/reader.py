"""Consumers of a real log: they read all batches, or the records that a read_committed consumer returns."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final
from unittest.mock import patch

from tests.simulation.logs.model import Written

from klamm.protocol.record_batch import iterate_batches
from klamm.protocol.records import Record, decode_batch
from klamm.protocol.types import Offset
from klamm.storage.log import log_reader
from klamm.storage.log.log import Log
from klamm.storage.log.stored_batches import StoredBatches

__all__ = ["read_batches", "read_committed"]

_SENT_FROM_FILE_BYTES: Final = 150
"""Worlds have small batches, so that they need a smaller threshold than the broker."""


def read_batches(log: Log, random: Random) -> list[Written]:
    """Returns all batches, fetched in pieces. Raises KafkaError."""
    found = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = _fetch(log, offset, random.choice((1, 200, 1_000)), log.log_end_offset)
        for position, header in iterate_batches(data):
            found.append(_written(bytes(data[position : position + header.size_bytes])))
            offset = Offset(header.next_offset)
        if not data:
            break
    return found


def _fetch(log: Log, offset: Offset, max_bytes: int, end: Offset) -> bytes | memoryview:
    """Returns batches as the answer to a Fetch has them: read into memory, or sent from the file. Raises KafkaError."""
    if offset % 2:
        return log.read(offset, max_bytes, upper_bound=end, minimum_one_batch=True)
    with patch.object(log_reader, "SENT_FROM_FILE_BYTES", _SENT_FROM_FILE_BYTES):
        batches = log.read_to_send(offset, max_bytes, upper_bound=end, minimum_one_batch=True)
    if not isinstance(batches, StoredBatches):
        return batches
    try:
        return batches.read()
    except OSError:
        # The broker breaks the connection. The consumer's next Fetch gets the error.
        batches.failed()
        return log.read(offset, max_bytes, upper_bound=end, minimum_one_batch=True)


def _written(data: bytes) -> Written:
    try:
        return Written.of(data)
    except IndexError:  # A cleaner has emptied the batch.
        return Written(next(header for _, header in iterate_batches(data)), data, None)


def read_committed(log: Log, start: int, end: int, random: Random) -> Iterator[Record]:
    """Yields the committed records, as Kafka's consumers do (`CompletedFetch`): an aborted transaction is left out from
    its first record to its marker.
    """
    offset = Offset(start)
    while offset < end:
        data = bytes(_fetch(log, offset, random.choice((1, 300)), Offset(end)))
        if not data:
            return
        aborted = sorted(log.aborted_transactions(offset, len(data)), key=lambda each: each.first_offset)
        excluded: set[int] = set()
        for position, header in iterate_batches(data):
            while aborted and aborted[0].first_offset <= header.last_offset:
                excluded.add(aborted.pop(0).producer_id)
            records = decode_batch(data, position)
            if header.is_control:
                if records and records[0].key is not None and records[0].key[3] == 0:
                    excluded.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in excluded):
                yield from (record for record in records if record.offset >= offset)
            offset = Offset(header.next_offset)
