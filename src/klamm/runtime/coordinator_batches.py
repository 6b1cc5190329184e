"""Encodes the records of a decision as batches for the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from klamm.core.coordinator.shard_contract import CoordinatorRecord, TransactionalWrite
from klamm.protocol.compression import Compression
from klamm.protocol.records import FramedRecords, UnstampedRecord, encode_batch
from klamm.protocol.types import Millis
from klamm.runtime.record_serde import RecordSerde

__all__ = ["coordinator_batches"]

_COMPRESSED_FROM_BYTES: Final = 256
"""Smaller batches are not compressed: they save almost nothing, and loading would have to decompress each of them.
A record of a group is larger, and half of it are the repeated names of its members.
"""
_BATCH_OVERHEAD_BYTES: Final = 61
_RECORD_OVERHEAD_BYTES: Final = 32
_SEQUENCE: Final = 0
"""Coordinators don't count sequences; in transactions they write the same value as Kafka's coordinators."""


def coordinator_batches(
    records: Sequence[CoordinatorRecord],
    serde: RecordSerde,
    *,
    timestamp: Millis,
    compression: Compression,
    max_batch_bytes: int | None,
    transaction: TransactionalWrite | None = None,
    framed: FramedRecords | None = None,
) -> Iterator[tuple[Sequence[CoordinatorRecord], bytes]]:
    """Yields batches, each with the records that it contains.

    With `max_batch_bytes` the records are spread over batches within that size; None makes one atomic batch. Batches
    over 256 bytes are compressed if that makes them smaller. With a `transaction` the records belong to it. `framed`
    are the first of the records if they are framed already; framed records can't be spread.
    """
    encoded: list[UnstampedRecord] = []
    for record in records if framed is None else records[framed.records_count :]:
        key, value = serde.serialize(record)
        encoded.append((timestamp, key, value, ()))
    start, size_bytes = 0, _BATCH_OVERHEAD_BYTES
    if max_batch_bytes is not None:
        for end, (_, record_key, record_value, _) in enumerate(encoded):
            record_bytes = len(record_key or b"") + len(record_value or b"") + _RECORD_OVERHEAD_BYTES
            if end > start and size_bytes + record_bytes > max_batch_bytes:
                yield records[start:end], _encode(encoded[start:end], compression, transaction)
                start, size_bytes = end, _BATCH_OVERHEAD_BYTES
            size_bytes += record_bytes
    yield records[start:], _encode(encoded[start:], compression, transaction, framed)


def _encode(
    records: Sequence[UnstampedRecord],
    compression: Compression,
    transaction: TransactionalWrite | None,
    framed: FramedRecords | None = None,
) -> bytes:
    if transaction is None:
        return encode_batch(
            records, compression=compression, compressed_from_bytes=_COMPRESSED_FROM_BYTES, framed=framed
        )
    return encode_batch(
        records,
        compression=compression,
        compressed_from_bytes=_COMPRESSED_FROM_BYTES,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        base_sequence=_SEQUENCE,
        is_transactional=True,
    )
