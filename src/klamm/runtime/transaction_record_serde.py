"""Encodes and decodes the records of `__transaction_state` for the transaction coordinator's shard.

After Apache Kafka's `TransactionLog.read`: records of unknown types are skipped.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.protocol.codec import decode
from klamm.protocol.coordinator_records import encode_record_key, encode_record_value
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.internal_topic_names import TRANSACTIONS_TOPIC
from klamm.protocol.schema.transaction_log_key import TransactionLogKey
from klamm.protocol.schema.transaction_log_value import TransactionLogValue

__all__ = ["TransactionRecordSerde"]

_PREFIX: Final = Struct(">h")


class TransactionRecordSerde:
    """Encodes and decodes the single record type of `__transaction_state`."""

    topic: Final = TRANSACTIONS_TOPIC
    owner_word: Final = "transactional id"

    def serialize(self, record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        """Returns key and value; a tombstone has no value."""
        value = record.value
        encoded = None if value is None else encode_record_value(value, record.value_version)
        return encode_record_key(record.key), encoded

    def deserialize(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
        """Returns the record, or None for an unknown type.

        Raises MalformedMessage for malformed bytes and for an unknown version of the value.
        """
        if _prefix(key) != TransactionLogKey.API_KEY:
            return None
        decoded_key, _ = decode(TransactionLogKey, 0, key, _PREFIX.size)
        if value is None:
            return CoordinatorRecord(decoded_key, None, -1)
        version = _prefix(value)
        lowest, highest = TransactionLogValue.VERSIONS
        if not lowest <= version <= highest:
            raise MalformedMessage(f"{TransactionLogValue.NAME} has versions {lowest} to {highest}, not {version}")
        decoded_value, _ = decode(TransactionLogValue, version, value, _PREFIX.size)
        return CoordinatorRecord(decoded_key, decoded_value, version)


def _prefix(data: bytes) -> int:
    if len(data) < _PREFIX.size:
        raise MalformedMessage("a coordinator record too short to say its type or version")
    prefix: int = _PREFIX.unpack_from(data)[0]
    return prefix
