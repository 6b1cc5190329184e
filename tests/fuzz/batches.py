"""Record batches: the reader of records, and both forms of the record scanner, which must agree with the reader."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from struct import pack_into
from typing import Any, Final

from tests.fuzz.guard import Target
from tests.support.scanner_loops import LOOPS

from klamm.protocol import record_scanner
from klamm.protocol.checksum import crc32c
from klamm.protocol.compression import Compression
from klamm.protocol.control_batch import (
    EndTransactionMarker,
    encode_end_transaction_marker,
    read_end_transaction_marker,
)
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import CRC_START, BatchHeader, batch_crc_is_valid, iterate_batches, read_batch_header
from klamm.protocol.record_scanner import RecordSpans, rewrite_batch, scan_records
from klamm.protocol.records import Record, UnstampedRecord, decode_batch, decode_records, encode_batch
from klamm.protocol.types import Millis, ProducerEpoch, ProducerId

__all__ = ["READER", "SCANNER"]

_MAX_BYTES: Final = 1 << 16
_RECORDS: Final[list[UnstampedRecord]] = [
    (1_700_000_000_000, b"key", b"value", [("header", b"x"), ("other", None)]),
    (1_700_000_000_100, None, bytes(70), ()),
    (1_699_999_999_000, b"tombstone", None, ()),
]


def _read_batches(data: bytes) -> None:
    with suppress(KafkaError):
        list(decode_records(data))
    with suppress(KafkaError):
        # Again with a valid CRC, as a malicious producer would send it.
        repaired = bytearray(data)
        for position, header in iterate_batches(data):
            covered = memoryview(data)[position + CRC_START : position + header.size_bytes]
            pack_into(">I", repaired, position + CRC_START - 4, crc32c(covered, 0))
        for position, header in iterate_batches(repaired):
            assert header.magic < 2 or batch_crc_is_valid(repaired, position, header)
            for record in decode_batch(repaired, position, _MAX_BYTES):
                if header.is_control:
                    with suppress(KafkaError):
                        read_end_transaction_marker(record)


def _batch_seeds() -> Iterator[bytes]:
    batches = [encode_batch(_RECORDS, base_offset=10 * codec, compression=codec) for codec in Compression]
    yield from batches
    yield b"".join(batches)
    yield encode_batch(_RECORDS, log_append_time_ms=5, producer_id=1, producer_epoch=0, base_sequence=0)
    yield encode_end_transaction_marker(
        EndTransactionMarker(True, 3),
        producer_id=ProducerId(1),
        producer_epoch=ProducerEpoch(0),
        timestamp_ms=Millis(5),
    )


def _fields(spans: RecordSpans) -> list[tuple[int, bytes | None, bytes | None]]:
    body = bytes(spans.body)
    return [
        (
            spans.offset_deltas[index],
            None if spans.key_ends[index] < 0 else body[spans.key_starts[index] : spans.key_ends[index]],
            None if spans.value_ends[index] < 0 else body[spans.value_starts[index] : spans.value_ends[index]],
        )
        for index in range(spans.count)
    ]


def _fields_of_records(records: list[Record], header: BatchHeader) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset - header.base_offset, record.key, record.value) for record in records]


def _scan(data: bytes, keep_pattern: int) -> Any:
    """Returns the scanner's fields of a batch and the batches rewritten from it, or an error code."""
    try:
        header = read_batch_header(data)
        spans = scan_records(data, 0, header, max_bytes=_MAX_BYTES)
    except KafkaError as error:
        return error.code
    keep = bytes((keep_pattern >> index % 7) & 1 for index in range(spans.count))
    fields = _fields(spans)
    rewritten = bytes(rewrite_batch(header, data, spans, keep, new_delete_horizon_ms=Millis(9), retain_empty=True))
    after = read_batch_header(rewritten)
    assert all(keep) or batch_crc_is_valid(rewritten, 0, after)
    again = scan_records(rewritten, 0, after, max_bytes=2 * _MAX_BYTES)
    assert _fields(again) == [field for field, mark in zip(fields, keep, strict=True) if mark]
    return fields, rewritten


def _read_scanner(data: bytes) -> None:
    if not data:
        return
    keep_pattern, batch = data[0], data[1:]
    module = vars(record_scanner)
    imported = module["_loops"]
    outcomes = []
    try:
        for loops in LOOPS:
            module["_loops"] = loops
            outcomes.append(_scan(batch, keep_pattern))
    finally:
        module["_loops"] = imported
    assert all(outcome == outcomes[0] for outcome in outcomes[1:]), outcomes
    try:
        expected: Any = _fields_of_records(decode_batch(batch, 0, _MAX_BYTES), read_batch_header(batch))
    except KafkaError as error:
        expected = error.code
    found = outcomes[0] if isinstance(outcomes[0], ErrorCode) else outcomes[0][0]
    # The scanner limits the size of its arrays; the reader creates one record at a time.
    is_bounded = found is ErrorCode.CORRUPT_MESSAGE and isinstance(expected, list) and len(expected) * 36 > _MAX_BYTES
    assert is_bounded or found == expected, f"{found} is not {expected}"


def _scanner_seeds() -> Iterator[bytes]:
    for pattern, batch in enumerate(_batch_seeds()):
        yield bytes((pattern * 37 + 5 & 0xFF,)) + batch


# Limit for the objects that a few compressed bytes may expand to.
_BYTES_AT_MOST: Final = 12 << 20

READER: Final = Target("batches", _read_batches, _batch_seeds, _BYTES_AT_MOST, 1000)
SCANNER: Final = Target("scanner", _read_scanner, _scanner_seeds, _BYTES_AT_MOST, 1000)
