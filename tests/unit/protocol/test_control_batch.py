"""Tests transaction markers: their bytes are Kafka's, and they are read back."""

from __future__ import annotations

import pytest

from klamm.protocol.control_batch import (
    EndTransactionMarker,
    encode_end_transaction_marker,
    read_end_transaction_marker,
)
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import read_batch_header, restamp
from klamm.protocol.records import Record, decode_batch
from klamm.protocol.types import LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId

# MemoryRecords.withEndTransactionMarker of Kafka 4.3: offset 5, producer 7, epoch 3, COMMIT, coordinator epoch 11.
JAVA_MARKER = bytes.fromhex(
    "000000000000000500000042ffffffff0232d664970030000000000000018bcfe568000000018bcfe5680000000000000000"
    "070003ffffffff000000012000000008000000010c00000000000b00"
)


def encode(marker: EndTransactionMarker) -> bytes:
    """Returns a control batch with the marker."""
    return encode_end_transaction_marker(
        marker, producer_id=ProducerId(7), producer_epoch=ProducerEpoch(3), timestamp_ms=Millis(1_700_000_000_000)
    )


def record(key: bytes | None, value: bytes | None) -> Record:
    """Returns a record of a control batch."""
    return Record(Offset(0), Millis(0), key, value, ())


def test_marker_is_written_as_java_writes_it() -> None:
    """A marker's batch equals Kafka's byte for byte after the leader has stamped its offset and leader epoch."""
    prefix, rest = restamp(encode(EndTransactionMarker(True, 11)), Offset(5), LeaderEpoch(-1))
    assert prefix + rest == JAVA_MARKER


@pytest.mark.parametrize("marker", [EndTransactionMarker(True, 0), EndTransactionMarker(False, 2**31 - 1)])
def test_marker_is_read_back(marker: EndTransactionMarker) -> None:
    """The outcome and coordinator epoch of a marker are read back from its transactional control batch."""
    batch = encode(marker)
    header = read_batch_header(batch)
    assert (header.is_control, header.is_transactional) == (True, True)
    (written,) = decode_batch(batch)
    assert read_end_transaction_marker(written) == marker


def test_later_versions_are_read_as_the_first() -> None:
    """A marker of a later version is read as version 0, because versions only add fields at the end."""
    key, value = b"\x00\x07\x00\x00more", b"\x00\x07\x00\x00\x00\x0bmore"
    assert read_end_transaction_marker(record(key, value)) == EndTransactionMarker(False, 11)


def test_other_control_records_are_no_markers() -> None:
    """A control record of another type, such as one of a Raft quorum, gives None."""
    assert read_end_transaction_marker(record(b"\x00\x00\x00\x02", b"")) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"\x00\x00\x00", None),
        (b"\xff\xff\x00\x00", None),
        (b"\x00\x00\x00\x01", None),
        (b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00"),
        (b"\x00\x00\x00\x01", b"\xff\xff\x00\x00\x00\x00"),
    ],
)
def test_what_is_no_control_record_is_refused(key: bytes | None, value: bytes | None) -> None:
    """A key or value that is missing, too short or of a negative version raises INVALID_RECORD."""
    with pytest.raises(KafkaError) as refused:
        read_end_transaction_marker(record(key, value))
    assert refused.value.code is ErrorCode.INVALID_RECORD
