"""Record batches for the conversations, valid and invalid."""

from __future__ import annotations

import time
from typing import Any, Final

from klamm.protocol.record_batch import HEADER_SIZE_BYTES, pack_header, read_batch_header
from klamm.protocol.records import encode_batch

__all__ = ["TIME", "altered", "batch", "legacy_message", "now_ms"]

TIME: Final = 1_700_000_000_000
"""A fixed time in the past, so that both brokers get the same batches."""


def now_ms() -> int:
    """Returns the current time in milliseconds."""
    return time.time_ns() // 1_000_000


def batch(*values: bytes, timestamp: int = TIME, key: bytes | None = b"k", **options: Any) -> bytes:
    """Returns a batch with a record for each value; the timestamps are one millisecond apart."""
    return encode_batch([(timestamp + index, key, value, ()) for index, value in enumerate(values)], **options)


def altered(sound: bytes, payload: bytes | None = None, **fields: Any) -> bytes:
    """Returns the batch with other header fields or another payload, and with the matching CRC."""
    payload = sound[HEADER_SIZE_BYTES:] if payload is None else payload
    return pack_header(read_batch_header(sound)._replace(**fields), payload) + payload


def legacy_message(magic: int, value: bytes = b"v") -> bytes:
    """Returns a message of the format before record batches, without a valid CRC."""
    body = bytes(4) + bytes((magic, 0)) + (bytes(8) if magic else b"")
    body += b"\xff\xff\xff\xff" + len(value).to_bytes(4, "big") + value
    return bytes(8) + len(body).to_bytes(4, "big") + body
