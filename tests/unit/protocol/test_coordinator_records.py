"""Tests records of `__consumer_offsets` against bytes that Apache Kafka 4.3's own classes wrote."""

from __future__ import annotations

import pytest

from klamm.protocol.coordinator_records import (
    decode_group_record,
    encode_record_key,
    encode_record_value,
    group_record_classes,
)
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.message import Message
from klamm.protocol.schema.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from klamm.protocol.schema.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from klamm.protocol.schema.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from klamm.protocol.schema.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from klamm.protocol.schema.group_metadata_key import GroupMetadataKey
from klamm.protocol.schema.group_metadata_value import GroupMetadataValue, MemberMetadata
from klamm.protocol.schema.metadata_request import MetadataRequest
from klamm.protocol.schema.offset_commit_key import OffsetCommitKey
from klamm.protocol.schema.offset_commit_value import OffsetCommitValue
from klamm.protocol.schema.record_types import GROUP_RECORDS
from klamm.protocol.schema.transaction_log_key import TransactionLogKey

TOPIC_ID = bytes(range(16))
MEMBER = MemberMetadata(
    member_id="m",
    group_instance_id="i",
    client_id="c",
    client_host="/127.0.0.1",
    rebalance_timeout=300_000,
    session_timeout=45_000,
    subscription=b"\x01\x02",
    assignment=b"\x03",
)
CLASSIC = ClassicMemberMetadata(
    session_timeout_ms=45_000, supported_protocols=[ClassicProtocol(name="range", metadata=b"\x01")]
)
RECORDS: dict[str, tuple[Message, Message | None, int]] = {
    "offset": (
        OffsetCommitKey(group="g", topic="t", partition=3),
        OffsetCommitValue(
            offset=42, leader_epoch=5, metadata="note", commit_timestamp=1_700_000_000_000, topic_id=TOPIC_ID
        ),
        4,
    ),
    "offset, version 3": (
        OffsetCommitKey(group="g", topic="t", partition=3),
        OffsetCommitValue(offset=42, leader_epoch=5, metadata="note", commit_timestamp=1_700_000_000_000),
        3,
    ),
    "offset, deleted": (OffsetCommitKey(group="g", topic="t", partition=3), None, 4),
    "classic group": (
        GroupMetadataKey(group="g"),
        GroupMetadataValue(
            protocol_type="consumer",
            generation=2,
            protocol="range",
            leader="m",
            current_state_timestamp=7,
            members=[MEMBER],
        ),
        3,
    ),
    "empty classic group": (GroupMetadataKey(group="g"), GroupMetadataValue(protocol=None, leader=None), 3),
    "member of a consumer group": (
        ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"),
        ConsumerGroupMemberMetadataValue(client_id="c", subscribed_topic_names=["t"], classic_member_metadata=None),
        0,
    ),
    "classic member of a consumer group": (
        ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"),
        ConsumerGroupMemberMetadataValue(client_id="c", rebalance_timeout_ms=5, classic_member_metadata=CLASSIC),
        0,
    ),
    "current assignment": (
        ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=4,
            previous_member_epoch=3,
            assigned_partitions=[
                TopicPartitions(topic_id=TOPIC_ID, partitions=[0, 1]),
                TopicPartitions(topic_id=TOPIC_ID, partitions=[2], assignment_epochs=[4]),
            ],
        ),
        0,
    ),
}
GOLDEN: dict[str, tuple[str, str | None]] = {
    "offset": (
        "000100016700017400000003",
        "0004000000000000002a00000005056e6f74650000018bcfe56800010010000102030405060708090a0b0c0d0e0f",
    ),
    "offset, version 3": ("000100016700017400000003", "0003000000000000002a0000000500046e6f74650000018bcfe56800"),
    "offset, deleted": ("000100016700017400000003", None),
    "classic group": (
        "0002000167",
        "00030008636f6e73756d657200000002000572616e676500016d00000000000000070000000100016d000169000163000a2f3132372e302e302e31000493e00000afc80000000201020000000103",
    ),
    "empty classic group": ("0002000167", "0003000000000000ffffffffffffffffffffffff00000000"),
    "member of a consumer group": ("000500016700016d", "0000010102630102027401ffffffff0101000100"),
    "classic member of a consumer group": (
        "000500016700016d",
        "0000010102630101010000000501010010010000afc8020672616e676502010000",
    ),
    "current assignment": (
        "000800016700016d",
        "000000000004000000030003000102030405060708090a0b0c0d0e0f03000000000000000100000102030405060708090a0b0c0d0e0f020000000201000502000000040100",
    ),
}


each_record = pytest.mark.parametrize("name", RECORDS)


@each_record
def test_a_record_is_written_as_kafka_writes_it(name: str) -> None:
    """Encoded keys and values equal Kafka's byte for byte."""
    key, value, version = RECORDS[name]
    golden_key, golden_value = GOLDEN[name]
    assert encode_record_key(key).hex() == golden_key
    assert (None if value is None else encode_record_value(value, version).hex()) == golden_value


@each_record
def test_a_record_that_kafka_wrote_is_read(name: str) -> None:
    """A record that Kafka wrote decodes to the expected key and value."""
    golden_key, golden_value = GOLDEN[name]
    value = None if golden_value is None else bytes.fromhex(golden_value)
    assert decode_group_record(bytes.fromhex(golden_key), value) == RECORDS[name][:2]


def test_every_type_of_record_has_its_classes() -> None:
    """Every record type has a key class and a value class, which carry the type as their API key."""
    for record_type in GROUP_RECORDS:
        classes = group_record_classes(record_type)
        assert classes is not None
        key, value = classes
        assert (record_type, "coordinator-key") == (key.API_KEY, key.TYPE)
        assert (record_type, "coordinator-value") == (value.API_KEY, value.TYPE)


@pytest.mark.parametrize("record_type", [9, 24, -1])
def test_an_unknown_type_is_none(record_type: int) -> None:
    """A record of an unknown type decodes to None, because another version of Kafka may have written it."""
    assert decode_group_record(record_type.to_bytes(2, "big", signed=True) + b"anything", b"") is None


@pytest.mark.parametrize("value", [b"", b"\x00", b"\x00\x04", b"\x00\x05" + bytes(40), b"\xff\xff" + bytes(40)])
def test_a_value_that_cannot_be_read_is_malformed(value: bytes) -> None:
    """A value that is cut off or has an unknown version is malformed; Kafka 4.3 stops loading at such a value."""
    with pytest.raises(MalformedMessage):
        decode_group_record(encode_record_key(OffsetCommitKey(group="g", topic="t")), value)


@pytest.mark.parametrize("key", [b"", b"\x00", b"\x00\x01", b"\x00\x01\x00\x05g"])
def test_a_key_that_cannot_be_read_is_malformed(key: bytes) -> None:
    """A record key that ends too early is malformed."""
    with pytest.raises(MalformedMessage):
        decode_group_record(key, None)


def test_keys_of_other_coordinators_have_the_same_form() -> None:
    """Keys of the transaction coordinator's topic, which has one record type, have the same form."""
    assert encode_record_key(TransactionLogKey(transactional_id="tx")) == b"\x00\x00\x00\x02tx"


def test_what_is_no_key_is_refused() -> None:
    """The encoder refuses a message that is not the key of a record, such as a request."""
    with pytest.raises(ValueError, match="not the key of a record"):
        encode_record_key(MetadataRequest())
