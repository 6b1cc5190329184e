"""Loads a coordinator's partition: replays every record of the log in the same way as when the record was new.

Offsets that a transaction committed carry its producer id, and the transaction's marker follows in a control batch.
Records of unknown types and unreadable records are skipped, and stay in the log. After Apache Kafka's
`CoordinatorLoaderImpl`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from klamm.core.coordinator.shard_contract import CoordinatorRecord, Shard
from klamm.protocol.control_batch import read_end_transaction_marker
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.records import BatchHeader, Record, iterate_batches, iterate_records
from klamm.protocol.types import Offset, PartitionIndex
from klamm.runtime.ports import CoordinatorLog
from klamm.runtime.skipped_records import SkippedRecords

__all__ = ["Deserialize", "replay_log"]

Deserialize = Callable[[bytes, bytes | None], CoordinatorRecord | None]
"""Decodes key and value of a record for the shard; returns None for a type that the shard does not know.

Raises MalformedMessage.
"""

_RECORDS_PER_STEP = 64


def replay_log(
    log: CoordinatorLog, partition: PartitionIndex, shard: Shard, deserialize: Deserialize, skipped: SkippedRecords
) -> Iterator[Offset]:
    """Replays the log to its end, and yields the reached offset every few records; at last the log end offset.

    Raises KafkaError if the log can't be read.
    """
    position = log.log_start_offset(partition)
    while position < log.log_end_offset(partition):
        view = memoryview(log.read(partition, position))
        reached = position
        for start, header in iterate_batches(view):
            if header.next_offset <= position:
                continue  # A read may begin below the requested offset.
            is_control, producer_id = header.is_control, header.producer_id
            for count, record in enumerate(iterate_records(view, start), 1):
                offset, _, key, value, _ = record
                if offset >= position and (
                    is_control or key is None or not shard.replay_bytes(offset, producer_id, key, value)
                ):
                    _replay_record(shard, header, record, deserialize, skipped)
                if count % _RECORDS_PER_STEP == 0:
                    yield offset
            reached = header.next_offset
            yield reached
        if reached == position:
            return  # The log ends in a gap: the records there have been removed.
        position = reached


def _replay_record(
    shard: Shard, header: BatchHeader, record: Record, deserialize: Deserialize, skipped: SkippedRecords
) -> None:
    if header.is_control:
        marker = read_end_transaction_marker(record)
        if marker is not None:
            shard.replay_end_transaction_marker(header.producer_id, header.producer_epoch, marker.is_commit)
        return
    key = record.key or b""
    try:
        decoded = deserialize(key, record.value)
    except MalformedMessage as error:
        skipped.add_unreadable(record.offset, key, str(error))
        return
    if decoded is None:
        skipped.add_unknown(key)
    else:
        shard.replay(record.offset, header.producer_id, header.producer_epoch, decoded)
