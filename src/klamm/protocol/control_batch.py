"""Control batches: the markers in a partition's log that end a transaction. Applications do not see them.

Source: `EndTransactionMarker` and `ControlRecordType` in `org.apache.kafka.common.record.internal` of Apache Kafka 4.3
(KIP-98).
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.records import Record, encode_batch
from klamm.protocol.types import Millis, ProducerEpoch, ProducerId

__all__ = ["EndTransactionMarker", "encode_end_transaction_marker", "read_end_transaction_marker"]

# Version and type. New versions only add fields at the end, so they are read as version 0.
_KEY: Final = Struct(">hh")
# Version and coordinator epoch.
_VALUE: Final = Struct(">hi")
_VERSION: Final = 0
_ABORT: Final = 0
_COMMIT: Final = 1


class EndTransactionMarker(NamedTuple):
    """The content of a control record that ends a transaction."""

    is_commit: bool
    coordinator_epoch: int


def encode_end_transaction_marker(
    marker: EndTransactionMarker, *, producer_id: ProducerId, producer_epoch: ProducerEpoch, timestamp_ms: Millis
) -> bytes:
    """Encodes a control batch with this one marker, for the leader to append."""
    key = _KEY.pack(_VERSION, _COMMIT if marker.is_commit else _ABORT)
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    return encode_batch(
        [(timestamp_ms, key, value, ())],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def read_end_transaction_marker(record: Record) -> EndTransactionMarker | None:
    """Decodes the marker in a record of a control batch; None for a control record of another type.

    Raises `KafkaError` (INVALID_RECORD) for a malformed control record.
    """
    key, value = record.key, record.value
    if key is None or len(key) < _KEY.size:
        raise KafkaError(ErrorCode.INVALID_RECORD, "a control record without a version and type")
    version, control_type = _KEY.unpack_from(key)
    if version < _VERSION:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"a control record of version {version}")
    if control_type not in (_ABORT, _COMMIT):
        return None
    if value is None or len(value) < _VALUE.size:
        raise KafkaError(ErrorCode.INVALID_RECORD, "an end transaction marker without a coordinator epoch")
    version, coordinator_epoch = _VALUE.unpack_from(value)
    if version < _VERSION:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"an end transaction marker of version {version}")
    return EndTransactionMarker(control_type == _COMMIT, coordinator_epoch)
