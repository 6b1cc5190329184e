"""Tests records of Kafka's metadata log against a file that Apache Kafka 4.3's `kafka-storage format` wrote."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.control_batch import EndTransactionMarker, encode_end_transaction_marker
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.metadata_records import (
    ControlRecordType,
    MetadataRecord,
    decode_control_record,
    decode_metadata_record,
    encode_control_batch,
    encode_metadata_batch,
    encode_metadata_record,
)
from klamm.protocol.records import decode_batch, iterate_batches
from klamm.protocol.schema.feature_level_record import FeatureLevelRecord
from klamm.protocol.schema.metadata_request import MetadataRequest
from klamm.protocol.schema.partition_record import PartitionRecord
from klamm.protocol.schema.snapshot_footer_record import SnapshotFooterRecord
from klamm.protocol.schema.snapshot_header_record import SnapshotHeaderRecord
from klamm.protocol.schema.topic_record import TopicRecord
from klamm.protocol.types import LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId

BOOTSTRAP: Final = bytes.fromhex(
    "0000000000000000000000470000000002290cd05b002000000000000001a2009719ad000001a2009719adffffffffff"
    "ffffffffffffffffff000000012a0000000800000003160000000000000000000000000000000000000001000000f100"
    "00000002a76e27aa000000000005000001a2009719dd000001a2009719ddffffffffffffffffffffffffffff00000006"
    "3a000000012e010c00116d657461646174612e76657273696f6e001e00005a000002014e010c0021656c696769626c65"
    "2e6c65616465722e7265706c696361732e76657273696f6e00010000340000040128010c000e67726f75702e76657273"
    "696f6e00010000340000060128010c000e73686172652e76657273696f6e0001000038000008012c010c001073747265"
    "616d732e76657273696f6e000100004000000a0134010c00147472616e73616374696f6e2e76657273696f6e00020000"
    "00000000000000070000003f0000000002f9b3dcd0002000000000000001a2009719e2000001a2009719e2ffffffffff"
    "ffffffffffffffffff000000011a00000008000000040600000000"
)
FEATURES: Final = {
    "metadata.version": 30,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}


def test_what_kafka_wrote_is_understood() -> None:
    """Kafka's file decodes to a snapshot header, the features of a newly formatted cluster, and a snapshot footer."""
    header, features, footer = (decode_batch(BOOTSTRAP, position) for position, _ in iterate_batches(BOOTSTRAP))
    assert decode_control_record(header[0].key, header[0].value) == (
        ControlRecordType.SNAPSHOT_HEADER,
        SnapshotHeaderRecord(),
    )
    assert decode_control_record(footer[0].key, footer[0].value) == (
        ControlRecordType.SNAPSHOT_FOOTER,
        SnapshotFooterRecord(),
    )
    assert [decode_metadata_record(record.value or b"") for record in features] == [
        MetadataRecord(FeatureLevelRecord(name=name, feature_level=level), 0) for name, level in FEATURES.items()
    ]


def test_what_is_written_is_what_kafka_writes_byte_by_byte() -> None:
    """With the same timestamps, the encoded batches, control records and records equal Kafka's file."""
    times = [header.base_timestamp for _, header in iterate_batches(BOOTSTRAP)]
    records = [
        MetadataRecord(FeatureLevelRecord(name=name, feature_level=level), 0) for name, level in FEATURES.items()
    ]
    epoch = LeaderEpoch(0)
    written = [
        encode_control_batch(
            ControlRecordType.SNAPSHOT_HEADER, SnapshotHeaderRecord(), offset=Offset(0), epoch=epoch, now_ms=times[0]
        ),
        encode_metadata_batch(records, offset=Offset(1), epoch=epoch, now_ms=times[1]),
        encode_control_batch(
            ControlRecordType.SNAPSHOT_FOOTER, SnapshotFooterRecord(), offset=Offset(7), epoch=epoch, now_ms=times[2]
        ),
    ]
    assert b"".join(written) == BOOTSTRAP


@given(st.text(max_size=50), st.binary(min_size=16, max_size=16), st.lists(st.integers(0, 2**31 - 1), max_size=5))
def test_records_survive_the_way_through_bytes(name: str, topic_id: bytes, brokers: list[int]) -> None:
    """An encoded metadata record decodes to the same record and version."""
    partition = PartitionRecord(partition_id=3, topic_id=topic_id, replicas=brokers, isr=brokers, leader=7)
    for record in (MetadataRecord(TopicRecord(name=name, topic_id=topic_id), 0), MetadataRecord(partition, 1)):
        assert decode_metadata_record(encode_metadata_record(*record)) == record


@given(st.binary(max_size=60))
def test_bytes_that_are_no_record_raise_one_error(value: bytes) -> None:
    """Any bytes decode to a record or raise MalformedMessage, and no other error."""
    for decode in (decode_metadata_record, lambda value: decode_control_record(value[:4], value[4:])):
        try:
            decode(value)
        except MalformedMessage:
            continue


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"", "too short"),
        (b"\x00\x02\x00", "frame version 0"),
        (b"\x01\x7f\x00", "type 127"),
        (b"\x01\x02\x09", "versions 0 to 0, not 9"),
        (encode_metadata_record(TopicRecord(name="t"), 0) + b"x", "1 bytes follow"),
    ],
)
def test_what_is_wrong_is_said(value: bytes, words: str) -> None:
    """The error names the fault, so that a reader can distinguish records of a later Kafka from damaged records."""
    with pytest.raises(MalformedMessage, match=words):
        decode_metadata_record(value)


def test_only_metadata_records_are_written() -> None:
    """The encoder refuses a message that is not a metadata record, such as a request."""
    with pytest.raises(ValueError, match="no record of the metadata log"):
        encode_metadata_record(MetadataRequest(), 0)


def test_a_transactions_marker_is_no_message() -> None:
    """A transaction marker decodes to its control record type without a message; a too short key is malformed."""
    batch = encode_end_transaction_marker(
        EndTransactionMarker(True, 5),
        producer_id=ProducerId(1),
        producer_epoch=ProducerEpoch(0),
        timestamp_ms=Millis(1),
    )
    (record,) = decode_batch(batch)
    assert decode_control_record(record.key, record.value) == (ControlRecordType.COMMIT, None)
    with pytest.raises(MalformedMessage, match="without a version"):
        decode_control_record(b"\x00", b"")
