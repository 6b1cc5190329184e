"""Decodes records of internal topics and control records to plain data."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from klamm.insight.plain_message import plain
from klamm.protocol.control_batch import read_end_transaction_marker
from klamm.protocol.coordinator_records import decode_coordinator_record, decode_group_record
from klamm.protocol.errors import KafkaError, MalformedMessage
from klamm.protocol.internal_topic_names import (
    HISTORY_TOPIC,
    METADATA_TOPIC,
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
)
from klamm.protocol.message import Message, UnsupportedVersion
from klamm.protocol.metadata_records import ControlRecordType, decode_control_record, decode_metadata_record
from klamm.protocol.records import Record
from klamm.protocol.schema.record_types import SHARE_RECORDS, TRANSACTION_RECORDS

__all__ = ["DECODERS", "Meaning", "decode_control", "decoder_of_topic"]


class Meaning(NamedTuple):
    """A decoded record: Kafka's name of it, its key and its value; `complaint` if it can't be decoded."""

    name: str | None = None
    key: Any = None
    value: Any = None
    version: int | None = None
    complaint: str | None = None


Decoder = Callable[[Record], Meaning]
_Decoded = tuple[Message, Message | None] | None


def _coordinator(decode: Callable[[bytes, bytes | None], _Decoded]) -> Decoder:
    def decoder(record: Record) -> Meaning:
        if record.key is None:
            return Meaning(complaint="a record without a key")
        decoded = decode(record.key, record.value)
        if decoded is None:
            return Meaning(complaint=f"a record of type {int.from_bytes(record.key[:2], 'big')}, which is not known")
        key, value = decoded
        version = int.from_bytes(record.value[:2], "big") if record.value is not None else None
        return Meaning(key.NAME.removesuffix("Key"), plain(key), plain(value) if value is not None else None, version)

    return decoder


def _metadata(record: Record) -> Meaning:
    if record.value is None:
        return Meaning(complaint="a record without a value")
    message, version = decode_metadata_record(record.value)
    return Meaning(message.NAME, None, plain(message), version)


def _history(record: Record) -> Meaning:
    if record.value is None:
        return Meaning(complaint="a record without a value")
    return Meaning("group history", (record.key or b"").decode("utf-8", "replace"), json.loads(record.value))


def _guarded(decoder: Decoder) -> Decoder:
    def guarded(record: Record) -> Meaning:
        try:
            return decoder(record)
        except (MalformedMessage, UnsupportedVersion, KafkaError, ValueError, RecursionError) as error:
            return Meaning(complaint=str(error))

    return guarded


DECODERS: Final[dict[str, Decoder]] = {
    "offsets": _guarded(_coordinator(decode_group_record)),
    "transactions": _guarded(
        _coordinator(lambda key, value: decode_coordinator_record(TRANSACTION_RECORDS, key, value))
    ),
    "share": _guarded(_coordinator(lambda key, value: decode_coordinator_record(SHARE_RECORDS, key, value))),
    "metadata": _guarded(_metadata),
    "history": _guarded(_history),
}
"""Decoders by their name for --decode."""

_TOPICS: Final = {
    OFFSETS_TOPIC: "offsets",
    TRANSACTIONS_TOPIC: "transactions",
    SHARE_STATE_TOPIC: "share",
    METADATA_TOPIC: "metadata",
    HISTORY_TOPIC: "history",
}


def decoder_of_topic(topic: str) -> str | None:
    """Returns the name in `DECODERS` of an internal topic's decoder; None for topics of applications."""
    return _TOPICS.get(topic)


def _control(record: Record) -> Meaning:
    record_type, message = decode_control_record(record.key, record.value)
    if message is not None:
        return Meaning(message.NAME, None, plain(message), int(getattr(message, "version", 0)))
    marker = read_end_transaction_marker(record)
    if marker is None:
        return Meaning(complaint=f"a control record of type {record_type}, which is not known")
    return Meaning(ControlRecordType(record_type).name.lower(), None, {"coordinator_epoch": marker.coordinator_epoch})


decode_control: Final = _guarded(_control)
"""Decodes a record of a control batch."""
