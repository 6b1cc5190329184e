"""Appends the records of a shard's decisions to the log, and then replays them into the shard."""

from __future__ import annotations

from typing import Final, TypeVar

from klamm.core.coordinator.shard_contract import EndOfTransaction, Result, Shard, TransactionalWrite
from klamm.protocol.compression import Compression
from klamm.protocol.control_batch import EndTransactionMarker, encode_end_transaction_marker
from klamm.protocol.types import Offset, ProducerEpoch, ProducerId
from klamm.runtime.coordinator_batches import coordinator_batches
from klamm.runtime.led_partition import LedPartition
from klamm.runtime.ports import CoordinatorLog, WallClock
from klamm.runtime.record_serde import RecordSerde

__all__ = ["OutOfSync", "RecordWriter"]

S = TypeVar("S", bound=Shard)

_NO_TRANSACTION: Final = TransactionalWrite(ProducerId(-1), ProducerEpoch(-1), 0)


class OutOfSync(Exception):
    """The shard and the log have different end offsets; the log must be loaded again."""


class RecordWriter:
    """Appends to the partitions of one internal topic."""

    def __init__(
        self, log: CoordinatorLog, serde: RecordSerde, wall_clock: WallClock, compression: Compression
    ) -> None:
        self._coordinator_log = log
        self._serde = serde
        self._wall_clock = wall_clock
        self._compression = compression

    def write(self, led: LedPartition[S], result: Result) -> None:
        """Appends and replays the records, or the marker.

        Raises KafkaError if the log refuses the append, OutOfSync if the log ends at another offset than expected.
        """
        transaction = result.transaction
        if isinstance(transaction, EndOfTransaction):
            self._write_marker(led, transaction)
        else:
            self._write_records(led, result, transaction)
        led.high_watermark = max(led.high_watermark, self._coordinator_log.high_watermark(led.partition))

    def _write_records(self, led: LedPartition[S], result: Result, transaction: TransactionalWrite | None) -> None:
        log = self._coordinator_log
        producer_id, producer_epoch, guard = transaction or _NO_TRANSACTION
        batches = coordinator_batches(
            result.records,
            self._serde,
            timestamp=self._wall_clock(),
            compression=self._compression,
            max_batch_bytes=None if result.atomic else log.max_batch_bytes,
            transaction=transaction,
            framed=result.framed,
        )
        for records, batch in batches:
            self._append(led, batch, len(records), guard, 0)
            offset = led.log_end_offset
            for record in records:
                led.shard.replay(offset, producer_id, producer_epoch, record)
                offset = Offset(offset + 1)
            led.log_end_offset = offset

    def _write_marker(self, led: LedPartition[S], end: EndOfTransaction) -> None:
        batch = encode_end_transaction_marker(
            EndTransactionMarker(end.is_commit, end.coordinator_epoch),
            producer_id=end.producer_id,
            producer_epoch=end.producer_epoch,
            timestamp_ms=self._wall_clock(),
        )
        self._append(led, batch, 1, 0, end.transaction_version)
        led.shard.replay_end_transaction_marker(end.producer_id, end.producer_epoch, end.is_commit)
        led.log_end_offset = Offset(led.log_end_offset + 1)

    def _append(self, led: LedPartition[S], batch: bytes, count: int, guard: int, transaction_version: int) -> None:
        led.is_appending = True
        try:
            last_offset = self._coordinator_log.append(
                led.partition, batch, verification_guard=guard, transaction_version=transaction_version
            )
        finally:
            led.is_appending = False
        led.refused_with = None
        offset = last_offset - count + 1
        if offset != led.log_end_offset:
            raise OutOfSync(f"records were written at offset {offset} instead of {led.log_end_offset}")
