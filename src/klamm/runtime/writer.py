"""Writes down what a shard has decided: the records go to the log and then, as what the log says, back to the shard."""

from __future__ import annotations

from typing import Final, TypeVar

from klamm.core.coordinator.contract import Result, Shard
from klamm.protocol.compression import Compression
from klamm.protocol.types import Offset, ProducerEpoch, ProducerId
from klamm.runtime.coordinator_batches import coordinator_batches
from klamm.runtime.led_partition import LedPartition
from klamm.runtime.ports import CoordinatorLog, WallClock
from klamm.runtime.record_serde import RecordSerde

__all__ = ["OutOfSync", "Writer"]

S = TypeVar("S", bound=Shard)

_NO_PRODUCER: Final = (ProducerId(-1), ProducerEpoch(-1))


class OutOfSync(Exception):
    """The shard and the log tell different stories; only reading the log anew helps."""


class Writer:
    """Appends to the partitions of one internal topic."""

    def __init__(
        self, log: CoordinatorLog, serde: RecordSerde, wall_clock: WallClock, compression: Compression
    ) -> None:
        self._coordinator_log = log
        self._serde = serde
        self._wall_clock = wall_clock
        self._compression = compression

    def write(self, led: LedPartition[S], result: Result) -> None:
        """Append and replay the records.

        Raises KafkaError if the log refused them, OutOfSync if it is not what the shard knows.
        """
        log = self._coordinator_log
        batches = coordinator_batches(
            result.records,
            self._serde,
            timestamp=self._wall_clock(),
            compression=self._compression,
            max_batch_bytes=None if result.atomic else log.max_batch_bytes,
        )
        for records, batch in batches:
            led.is_appending = True
            try:
                last_offset = log.append(led.partition, batch)
            finally:
                led.is_appending = False
            offset = last_offset - len(records) + 1
            if offset != led.log_end_offset:
                raise OutOfSync(f"records were written at offset {offset} instead of {led.log_end_offset}")
            for record in records:
                led.shard.replay(Offset(offset), *_NO_PRODUCER, record)
                offset += 1
            led.log_end_offset = Offset(offset)
        led.high_watermark = max(led.high_watermark, log.high_watermark(led.partition))
