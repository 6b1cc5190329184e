"""Consumers of a real log: they read all batches, or the records that a read_committed consumer returns."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tests.simulation.logs.model import Written

from klamm.protocol.record_batch import iterate_batches
from klamm.protocol.records import Record, decode_batch
from klamm.protocol.types import Offset
from klamm.storage.log import Log

__all__ = ["read_batches", "read_committed"]


def read_batches(log: Log, random: Random) -> list[Written]:
    """Returns all batches, fetched in pieces. Raises KafkaError."""
    found = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, random.choice((1, 200, 1_000)), upper_bound=log.log_end_offset, minimum_one_batch=True)
        for position, header in iterate_batches(data):
            found.append(_written(bytes(data[position : position + header.size_bytes])))
            offset = Offset(header.next_offset)
        if not data:
            break
    return found


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
        data = bytes(log.read(offset, random.choice((1, 300)), upper_bound=Offset(end), minimum_one_batch=True))
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
