"""Tests batches that a leader opens: the records for which it refuses them, and the batches that it stores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.bombs import KEYED_RECORD, SMALLEST_RECORD, batch_of, record_in_sequence, records_in_sequence
from tests.support.examples import examples
from tests.support.log_folder import NOW_MS, ORDERS, batch

from klamm.config.topic_config import TopicConfig
from klamm.core.log.batch_opening import (
    MAXIMUM_OPENED_BYTES,
    MAXIMUM_OPENED_RECORDS,
    BatchOpening,
    BeginningIsNotEnough,
    InvalidRecords,
    finish,
    is_stored_as_it_came,
    must_be_opened,
    needs_new_header,
    open_now,
    with_new_header,
)
from klamm.protocol.compression import Compression, compress
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import HEADER_SIZE_BYTES, batch_crc_is_valid, pack_header, read_batch_header
from klamm.protocol.records import decode_batch, encode_batch
from klamm.protocol.types import Millis
from klamm.protocol.varint import encode_varint

HOUR_MS = 3_600_000


def _store(records: bytes, config: TopicConfig, now_ms: int = NOW_MS) -> bytes:
    """Returns the batch as a leader stores it."""
    header = read_batch_header(records)
    if is_stored_as_it_came(header, config, Millis(now_ms), True):
        assert not must_be_opened(header, config, Millis(now_ms), True)
        assert not needs_new_header(header, config)
        return records
    if must_be_opened(header, config, Millis(now_ms), True):
        return bytes(open_now(BatchOpening(records, header, config, Millis(now_ms), ORDERS, True)))
    if needs_new_header(header, config):
        return bytes(with_new_header(records, header, config, Millis(now_ms)))
    return records


def _check(records: bytes, **config: Any) -> None:
    _store(records, TopicConfig(**config))


def _refusal(records: bytes, **config: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        _check(records, **config)
    return refused.value.code


def _with_payload(records: bytes, payload: bytes) -> bytes:
    """Returns the batch with other records and a CRC that fits."""
    return pack_header(read_batch_header(records), payload) + payload


def _changed(records: bytes, **fields: Any) -> bytes:
    """Returns the batch with other header fields and a CRC that fits."""
    payload = records[HEADER_SIZE_BYTES:]
    return pack_header(read_batch_header(records)._replace(**fields), payload) + payload


def test_a_compacted_topic_needs_keys() -> None:
    """A compacted topic refuses records without a key, and the error names these records."""
    records = encode_batch([(NOW_MS, b"k", b"v", ()), (NOW_MS, None, b"v", ()), (NOW_MS, None, None, ())])
    _check(records)
    with pytest.raises(InvalidRecords) as refused:
        _check(records, cleanup_policy=frozenset({"compact", "delete"}))
    assert refused.value.code is ErrorCode.INVALID_RECORD
    reason = "Compacted topic cannot accept message without key in topic partition orders-0"
    assert refused.value.record_errors == ((1, reason), (2, reason))
    assert str(refused.value).endswith(
        "rejected due to 2 record errors in total, and only showing the first three errors at most: "
        f"[RecordError(batchIndex=1, message='{reason}'), RecordError(batchIndex=2, message='{reason}')]"
    )


def test_each_record_with_a_bad_time_is_named() -> None:
    """The error names each record with a bad timestamp and, on a compacted topic, each record without a key; a bad
    timestamp decides the error code (KIP-467)."""
    records = encode_batch([(NOW_MS - 5, b"k", b"v", ()), (NOW_MS, b"k", b"v", ()), (NOW_MS, None, b"v", ())])
    with pytest.raises(InvalidRecords) as refused:
        _check(records, message_timestamp_before_max_ms=4, message_timestamp_after_max_ms=7)
    assert refused.value.code is ErrorCode.INVALID_TIMESTAMP
    assert refused.value.message == "One or more records have been rejected due to invalid timestamp"
    bad_time = (
        f"Timestamp {NOW_MS - 5} of message with offset 0 is out of range. "
        f"The timestamp should be within [{NOW_MS - 4}, {NOW_MS + 7}]"
    )
    assert refused.value.record_errors == ((0, bad_time),)
    with pytest.raises(InvalidRecords) as refused:
        _check(records, message_timestamp_before_max_ms=4, cleanup_policy=frozenset({"compact"}))
    assert refused.value.code is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in refused.value.record_errors] == [0, 2]


def test_a_header_that_only_claims_a_bad_time_is_no_reason() -> None:
    """A batch is accepted if only its header has a bad timestamp, because the records themselves are checked."""
    _check(_changed(batch(), max_timestamp=NOW_MS + 2 * HOUR_MS))


def test_not_every_record_of_a_large_bad_batch_is_named() -> None:
    """The error names at most 1000 records, so that the response to a small batch stays small."""
    with pytest.raises(InvalidRecords) as refused:
        _check(batch(5000, timestamp_ms=NOW_MS + 2 * HOUR_MS))
    assert len(refused.value.record_errors) == 1000


@pytest.mark.parametrize(
    ("timestamp", "before", "is_refused"),
    [
        (NOW_MS, 0, False),
        (NOW_MS + HOUR_MS, HOUR_MS, False),
        (NOW_MS + HOUR_MS + 1, HOUR_MS, True),
        (NOW_MS - HOUR_MS, HOUR_MS, False),
        (NOW_MS - HOUR_MS - 1, HOUR_MS, True),
        (0, 2**63 - 1, False),
        (-1, 0, False),
    ],
)
def test_timestamps_must_be_near_the_clock(timestamp: int, before: int, is_refused: bool) -> None:
    """Timestamps outside message.timestamp.before.max.ms and after.max.ms are refused; missing ones are accepted."""
    records = batch(timestamp_ms=timestamp)
    if is_refused:
        assert _refusal(records, message_timestamp_before_max_ms=before) is ErrorCode.INVALID_TIMESTAMP
    else:
        _check(records, message_timestamp_before_max_ms=before)


def test_the_first_record_may_be_the_one_that_is_too_old() -> None:
    """A batch whose first record is too old is refused, because the header has its first and its largest timestamp."""
    records = encode_batch([(NOW_MS - 2000, b"k", b"v", ()), (NOW_MS, b"k", b"v", ())])
    assert _refusal(records, message_timestamp_before_max_ms=1000) is ErrorCode.INVALID_TIMESTAMP


def test_any_record_may_be_the_one_that_is_too_old() -> None:
    """A batch is refused for a record in its middle that is too old, although the header does not show it."""
    times = (NOW_MS, NOW_MS - 2000, NOW_MS - 1)
    records = encode_batch([(timestamp, b"k", b"v", ()) for timestamp in times])
    with pytest.raises(InvalidRecords) as refused:
        _check(records, message_timestamp_before_max_ms=1000)
    assert [index for index, _ in refused.value.record_errors] == [1]


def test_producers_do_not_set_log_append_time() -> None:
    """A producer's batch of LogAppendTime is INVALID_TIMESTAMP on a topic of LogAppendTime. On other topics it is
    stored as CreateTime, as in Kafka."""
    records = batch(log_append_time_ms=NOW_MS)
    assert _refusal(records, message_timestamp_type="LogAppendTime") is ErrorCode.INVALID_TIMESTAMP
    _check(records)
    stored = _store(records, TopicConfig())
    assert read_batch_header(stored).timestamp_type == 0
    assert batch_crc_is_valid(stored, 0, read_batch_header(stored))


def test_a_batch_is_stored_as_it_came_where_nothing_asks_for_more() -> None:
    """A batch is stored unchanged if compression.type is producer or the codec that the batch already has."""
    records = batch(compression=Compression.LZ4)
    assert _store(records, TopicConfig()) is records
    assert _store(records, TopicConfig(compression_type="lz4")) is records


def test_log_append_time_is_set_without_opening_the_batch() -> None:
    """LogAppendTime is set without opening the batch, and readers see it on every record."""
    records = batch(2, compression=Compression.ZSTD, timestamp_ms=5)
    config = TopicConfig(message_timestamp_type="LogAppendTime")
    assert not must_be_opened(read_batch_header(records), config, NOW_MS, True)
    stored = _store(records, config, NOW_MS + 1)
    assert stored[HEADER_SIZE_BYTES:] == records[HEADER_SIZE_BYTES:]
    assert batch_crc_is_valid(stored, 0, read_batch_header(stored))
    assert [record.timestamp_ms for record in decode_batch(stored)] == [NOW_MS + 1] * 2


@pytest.mark.parametrize("name", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topic_may_have_a_codec_of_its_own(name: str) -> None:
    """compression.type gives the stored batch the topic's codec; the records stay the same (I9)."""
    records = batch(5, compression=Compression.GZIP if name != "gzip" else Compression.LZ4, value=bytes(200))
    config = TopicConfig(compression_type=name)
    stored = _store(records, config)
    stored_header = read_batch_header(stored)
    assert stored_header.compression.name == {"uncompressed": "NONE"}.get(name, name.upper())
    assert batch_crc_is_valid(stored, 0, stored_header)
    assert decode_batch(stored) == decode_batch(records)


def test_a_batch_that_grows_beyond_the_limit_is_refused() -> None:
    """A batch that grows beyond the size limit when stored with the topic's codec is refused."""
    records = batch(50, compression=Compression.ZSTD, value=bytes(1000))
    config = TopicConfig(compression_type="uncompressed", max_message_bytes=10_000)
    with pytest.raises(KafkaError) as refused:
        _store(records, config)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("is_framed", [True, False])
@pytest.mark.parametrize("codec", ["uncompressed", "gzip"])
def test_a_snappy_batch_beyond_the_limit_is_too_large(codec: str, is_framed: bool) -> None:
    """A snappy batch above the limit is MESSAGE_TOO_LARGE, framed as Java or librdkafka frames it. It is opened by the
    block, so there may be less than the limit."""
    payload = records_in_sequence(20_000)
    closed = compress(Compression.SNAPPY, payload) if is_framed else bytes(cramjam.snappy.compress_raw(payload))
    sent = _with_payload(batch_of(payload, 20_000, Compression.SNAPPY, base_timestamp=NOW_MS), closed)
    config = TopicConfig(compression_type=codec, max_message_bytes=100_000)
    opening = BatchOpening(sent, read_batch_header(sent), config, NOW_MS, ORDERS, True, is_for_coordinator=True)
    assert opening.max_bytes < len(payload)
    with pytest.raises(KafkaError) as refused:
        open_now(opening)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


def _expected_errors(records: list[tuple[int, bytes | None]], compact: bool, before: int) -> list[int]:
    """Returns the numbers of the records to be refused, each record checked by itself."""
    return [
        number
        for number, (timestamp, key) in enumerate(records)
        if (compact and key is None) or (timestamp != -1 and not NOW_MS - before <= timestamp <= NOW_MS + HOUR_MS)
    ]


@settings(max_examples=examples(200), deadline=None)
@given(
    records=st.lists(
        st.tuples(
            st.sampled_from([-1, 0, NOW_MS, NOW_MS - 5, NOW_MS + HOUR_MS, NOW_MS + HOUR_MS + 1]),
            st.sampled_from([None, b"", b"key"]),
        ),
        min_size=1,
        max_size=6,
    ),
    codec=st.sampled_from(Compression),
    compact=st.booleans(),
    before=st.sampled_from([0, 5, 2**63 - 1]),
)
def test_the_records_to_be_refused_are_those_that_kafka_refuses(
    records: list[tuple[int, bytes | None]], codec: Compression, compact: bool, before: int
) -> None:
    """The refused records are those that Kafka refuses, at any position and under any codec. Without such records the
    batch is stored unchanged."""
    sent = encode_batch([(timestamp, key, b"value", ()) for timestamp, key in records], compression=codec)
    policy = frozenset({"compact" if compact else "delete"})
    config = TopicConfig(message_timestamp_before_max_ms=before, cleanup_policy=policy)
    expected = _expected_errors(records, compact, before)
    if expected:
        assert must_be_opened(read_batch_header(sent), config, NOW_MS, True)
        with pytest.raises(InvalidRecords) as refused:
            _store(sent, config)
        assert [number for number, _ in refused.value.record_errors] == expected
    else:
        assert _store(sent, config) == sent


COMPACT = TopicConfig(cleanup_policy=frozenset({"compact"}))


def test_more_records_than_a_leader_looks_at_are_too_many() -> None:
    """A batch with too many records to open is MESSAGE_TOO_LARGE, at which Java's producers split it. A higher
    `max.message.bytes` raises the limit."""
    count = MAXIMUM_OPENED_RECORDS
    records = records_in_sequence(count)
    _store(batch_of(records, count), COMPACT)
    too_many = batch_of(records + record_in_sequence(count), count + 1)
    with pytest.raises(KafkaError, match="send smaller batches") as refused:
        _store(too_many, COMPACT)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    _store(too_many, replace(COMPACT, max_message_bytes=7 * (count + 1)))


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_more_bytes_than_a_leader_opens_are_too_many(codec: Compression) -> None:
    """A batch that decompresses to too many bytes is MESSAGE_TOO_LARGE; damaged data is CORRUPT_MESSAGE instead."""
    value = bytes(MAXIMUM_OPENED_BYTES * 2 // 3)
    body = b"\x00\x00\x00\x02k" + encode_varint(len(value)) + value + b"\x00"
    record = encode_varint(len(body)) + body
    two = batch_of(record + record.replace(b"\x00\x00\x00\x02k", b"\x00\x00\x02\x02k", 1), 2, codec)
    with pytest.raises(KafkaError) as refused:
        _store(two, COMPACT)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    with pytest.raises(KafkaError) as refused:
        _store(_with_payload(two, two[HEADER_SIZE_BYTES:-9]), COMPACT)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE, "the damage lies behind what is opened"
    one = batch_of(record, 1, codec)
    _store(one, COMPACT)
    with pytest.raises(KafkaError) as refused:
        _store(_with_payload(one, one[HEADER_SIZE_BYTES:-9]), COMPACT)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_the_first_records_decide_if_they_can() -> None:
    """A batch with too many records is refused with INVALID_RECORD if its first records are to be refused."""
    count = MAXIMUM_OPENED_RECORDS + 1
    with pytest.raises(InvalidRecords) as refused:
        _store(batch_of(SMALLEST_RECORD * count, count), COMPACT)
    assert len(refused.value.record_errors) == 1000


def test_a_codec_of_the_topics_own_is_bounded_by_what_is_stored() -> None:
    """A batch that must be stored uncompressed is opened only up to the size that can be stored."""
    sent = batch_of(KEYED_RECORD * 500_000, 500_000)
    config = TopicConfig(compression_type="uncompressed")
    opening = BatchOpening(sent, read_batch_header(sent), config, NOW_MS, ORDERS, True)
    opened = opening.open_within(2**30)
    assert len(opened.data) <= config.max_message_bytes
    assert not opened.is_whole
    assert _refusal(sent, compression_type="uncompressed") is ErrorCode.MESSAGE_TOO_LARGE


def test_what_a_coordinator_reads_back_opens_to_no_more_than_a_message() -> None:
    """A batch for a coordinator may open to at most the size of a message, because it is read on the event loop."""
    sent = batch_of(records_in_sequence(500_000), 500_000)
    opening = BatchOpening(sent, read_batch_header(sent), COMPACT, NOW_MS, ORDERS, True, is_for_coordinator=True)
    with pytest.raises(KafkaError) as refused:
        open_now(opening)
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("count", [2, 4])
def test_a_count_that_is_wrong_is_found_where_the_batch_is_opened(count: int) -> None:
    """An opened batch with more or fewer records than its header says is INVALID_RECORD."""
    sent = _changed(batch(3), records_count=count, last_offset_delta=count - 1)
    _store(sent, TopicConfig())
    assert _refusal(sent, cleanup_policy=frozenset({"compact"})) is ErrorCode.INVALID_RECORD


def test_offsets_that_do_not_follow_each_other_are_refused_in_compressed_batches() -> None:
    """A compressed batch with wrong record offsets raises UNKNOWN_SERVER_ERROR; other batches are renumbered, as in
    Kafka.

    Records that are refused for their content are reported first.
    """
    identical = KEYED_RECORD * 3
    _store(batch_of(identical, 3, Compression.NONE, base_timestamp=NOW_MS), COMPACT)
    for codec in Compression:
        if codec:
            with pytest.raises(KafkaError, match="record 1 of a compressed batch has the offset 0") as refused:
                _store(batch_of(identical, 3, codec, base_timestamp=NOW_MS), COMPACT)
            assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    with pytest.raises(InvalidRecords) as invalid:
        _store(batch_of(identical + SMALLEST_RECORD, 4, base_timestamp=NOW_MS), COMPACT)
    assert [number for number, _ in invalid.value.record_errors] == [3]


@pytest.mark.parametrize("record", [SMALLEST_RECORD, KEYED_RECORD])
def test_the_beginning_of_a_batch_may_be_enough_to_refuse_it(record: bytes) -> None:
    """A thousand records that are refused or out of sequence decide a batch, because an error names no more of them."""
    sent = batch_of(record * 4_000_000, 4_000_000)
    opening = BatchOpening(sent, read_batch_header(sent), COMPACT, NOW_MS, ORDERS, True)
    with pytest.raises(KafkaError):
        finish(opening.steps(opening.open_within(100_000)))
    with pytest.raises(BeginningIsNotEnough):
        finish(opening.steps(opening.open_within(5_000)))
