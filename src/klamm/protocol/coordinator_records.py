"""Encodes and decodes records of internal topics: the key begins with the record type, the value with its version.

Both prefixes are an int16. After `CoordinatorRecordSerde` and `GroupCoordinatorRecordSerde` of Apache Kafka 4.3. The
group coordinator's topic is `__consumer_offsets`. The records of the transaction and share coordinators have the same
form, and tables of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from struct import Struct
from typing import Final, TypeAlias

from klamm.protocol.codec import decode, encode
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.message import Message
from klamm.protocol.schema.record_types import GROUP_RECORDS

__all__ = [
    "decode_coordinator_record",
    "decode_group_record",
    "encode_record_key",
    "encode_record_value",
    "group_record_classes",
]

RecordTable: TypeAlias = Mapping[int, tuple[str, str, str, str]]

_PREFIX: Final = Struct(">h")


def encode_record_key(message: Message) -> bytes:
    """Encodes the key of a record; `message` is a coordinator-key, and its API_KEY is the record type.

    Raises ValueError for another message, and as `encode`.
    """
    if message.API_KEY is None or message.TYPE != "coordinator-key":
        raise ValueError(f"{message.NAME} is not the key of a record")
    return _PREFIX.pack(message.API_KEY) + encode(message, 0)


def encode_record_value(message: Message, version: int) -> bytes:
    """Encodes the value of a record in one version. Raises as `encode`."""
    return _PREFIX.pack(version) + encode(message, version)


def decode_group_record(key: bytes, value: bytes | None) -> tuple[Message, Message | None] | None:
    """Decodes key and value of a record of `__consumer_offsets`; a tombstone has no value.

    Returns None for an unknown record type: replay skips the record, the log keeps it. Raises MalformedMessage for
    malformed bytes and, as Kafka does, for an unknown version of the value.
    """
    return _decode(group_record_classes(_prefix(key)), key, value)


def decode_coordinator_record(
    table: RecordTable, key: bytes, value: bytes | None
) -> tuple[Message, Message | None] | None:
    """Decodes a record as `decode_group_record`, with the record types in `table` (`schema/record_types.py`)."""
    row = table.get(_prefix(key))
    return _decode(_load(*row) if row is not None else None, key, value)


def _decode(
    classes: tuple[type[Message], type[Message]] | None, key: bytes, value: bytes | None
) -> tuple[Message, Message | None] | None:
    if classes is None:
        return None
    key_class, value_class = classes
    key_message, _ = decode(key_class, 0, key, _PREFIX.size)
    if value is None:
        return key_message, None
    version = _prefix(value)
    low, high = value_class.VERSIONS
    if not low <= version <= high:
        raise MalformedMessage(f"{value_class.NAME} has versions {low} to {high}, not {version}")
    return key_message, decode(value_class, version, value, _PREFIX.size)[0]


@cache
def group_record_classes(record_type: int) -> tuple[type[Message], type[Message]] | None:
    """Returns the classes of key and value for a record type of `__consumer_offsets`, or None for an unknown type."""
    row = GROUP_RECORDS.get(record_type)
    return _load(*row) if row is not None else None


@cache
def _load(key_module: str, key_name: str, value_module: str, value_name: str) -> tuple[type[Message], type[Message]]:
    package = "klamm.protocol.schema"
    key_class: type[Message] = getattr(import_module(f"{package}.{key_module}"), key_name)
    value_class: type[Message] = getattr(import_module(f"{package}.{value_module}"), value_name)
    return key_class, value_class


def _prefix(data: bytes) -> int:
    if len(data) < _PREFIX.size:
        raise MalformedMessage("a coordinator record too short to say its type or version")
    prefix: int = _PREFIX.unpack_from(data)[0]
    return prefix
