"""What a leader refuses, and with which code."""

from __future__ import annotations

from struct import Struct
from typing import Any

import pytest
from tests.support.log_folder import NOW_MS, ORDERS, batch

from klamm.config.topic import TopicConfig
from klamm.core.log.validation import InvalidRecords, check_batch, needs_rewrite, read_single_batch, rewrite
from klamm.protocol.compression import Compression
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import HEADER_SIZE_BYTES, batch_crc_is_valid, pack_header, read_batch_header
from klamm.protocol.records import decode_batch, encode_batch
from klamm.protocol.types import Millis

HOUR_MS = 3_600_000


def _check(records: bytes, *, from_client: bool = True, **config: Any) -> None:
    check_batch(records, read_single_batch(records), TopicConfig(**config), NOW_MS, from_client, ORDERS)


def _refusal(records: bytes, *, from_client: bool = True, **config: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        _check(records, from_client=from_client, **config)
    return refused.value.code


def _changed(records: bytes, **fields: Any) -> bytes:
    """The batch with other header fields and a CRC that fits them."""
    payload = records[HEADER_SIZE_BYTES:]
    return pack_header(read_batch_header(records)._replace(**fields), payload) + payload


def _old_message(magic: int) -> bytes:
    """A message of magic 0 or 1 with a value of three bytes."""
    body = bytes([magic, 0]) + (bytes(8) if magic else b"") + Struct(">ii").pack(-1, 3) + b"abc"
    return Struct(">qiI").pack(0, len(body) + 4, 0) + body


def test_a_batch_as_clients_send_it_passes() -> None:
    """With every codec, with and without a producer id."""
    for compression in Compression:
        _check(batch(3, compression=compression))
    _check(batch(3, sequence=5, producer_id=1, epoch=0))


@pytest.mark.parametrize("records", [b"", bytes(11), batch()[:-1], batch()[:40], batch() * 2, batch() + batch()])
def test_there_must_be_exactly_one_whole_batch(records: bytes) -> None:
    """None, part of one and two are INVALID_RECORD."""
    assert _refusal(records) is ErrorCode.invalid_record


def test_part_of_a_batch_behind_the_first_is_left_out() -> None:
    """As in Kafka, which trims it."""
    _check(batch() + batch()[:30])
    _check(batch() + b"junk")


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_refused_by_name(magic: int) -> None:
    """Whether one or several, whether shorter than a header of today or not."""
    assert _refusal(_old_message(magic)) is ErrorCode.invalid_record
    with pytest.raises(KafkaError, match="magic version 2"):
        _check(_old_message(magic) * 3)


@pytest.mark.parametrize(
    "records",
    [
        batch()[:16] + b"\x07" + batch()[17:],
        batch()[:8] + Struct(">i").pack(20) + batch()[12:],
        batch()[:8] + Struct(">i").pack(-5) + batch()[12:],
        batch()[:-1] + b"?",
        batch()[:20] + b"?" + batch()[21:],
    ],
    ids=["magic", "short length", "negative length", "payload", "crc"],
)
def test_bytes_that_are_no_batch_are_corrupt(records: bytes) -> None:
    """CORRUPT_MESSAGE, which makes a client send it again."""
    assert _refusal(records) is ErrorCode.corrupt_message


@pytest.mark.parametrize(
    "fields",
    [
        {"base_offset": 1},
        {"records_count": 2},
        {"records_count": 0, "last_offset_delta": -1},
        {"records_count": -1},
        {"last_offset_delta": 4},
        {"attributes": 0x20},
        {"producer_id": 5, "producer_epoch": 0, "base_sequence": -1},
    ],
    ids=str,
)
def test_a_header_that_contradicts_itself_is_refused(fields: dict[str, int]) -> None:
    """Base offset, count, control bit, sequence: INVALID_RECORD."""
    assert _refusal(_changed(batch(3), **fields)) is ErrorCode.invalid_record


def test_what_the_broker_writes_may_be_a_control_batch() -> None:
    """Markers come from the coordinator."""
    _check(batch(is_control=True, is_transactional=True), from_client=False)


def test_a_batch_larger_than_the_topic_allows_is_refused_before_its_crc_is_looked_at() -> None:
    """MESSAGE_TOO_LARGE makes a client split the batch."""
    records = batch(value=bytes(100))
    assert _refusal(records, max_message_bytes=len(records) - 1) is ErrorCode.message_too_large
    _check(records, max_message_bytes=len(records))


def test_a_compacted_topic_needs_keys() -> None:
    """The answer says which records lack one."""
    records = encode_batch([(NOW_MS, b"k", b"v", ()), (NOW_MS, None, b"v", ()), (NOW_MS, None, None, ())])
    _check(records)
    with pytest.raises(InvalidRecords) as refused:
        _check(records, cleanup_policy=frozenset({"compact", "delete"}))
    assert refused.value.code is ErrorCode.invalid_record
    reason = "Compacted topic cannot accept message without key in topic partition orders-0"
    assert refused.value.record_errors == ((1, reason), (2, reason))
    assert str(refused.value).endswith(
        "rejected due to 2 record errors in total, and only showing the first three errors at most: "
        f"[RecordError(batchIndex=1, message='{reason}'), RecordError(batchIndex=2, message='{reason}')]"
    )


def test_each_record_with_a_bad_time_is_named() -> None:
    """And a record without a key beside it, on a compacted topic; the time decides the code (KIP-467)."""
    records = encode_batch([(NOW_MS - 5, b"k", b"v", ()), (NOW_MS, b"k", b"v", ()), (NOW_MS, None, b"v", ())])
    with pytest.raises(InvalidRecords) as refused:
        _check(records, message_timestamp_before_max_ms=4, message_timestamp_after_max_ms=7)
    assert refused.value.code is ErrorCode.invalid_timestamp
    assert refused.value.message == "One or more records have been rejected due to invalid timestamp"
    bad_time = (
        f"Timestamp {NOW_MS - 5} of message with offset 0 is out of range. "
        f"The timestamp should be within [{NOW_MS - 4}, {NOW_MS + 7}]"
    )
    assert refused.value.record_errors == ((0, bad_time),)
    with pytest.raises(InvalidRecords) as refused:
        _check(records, message_timestamp_before_max_ms=4, cleanup_policy=frozenset({"compact"}))
    assert refused.value.code is ErrorCode.invalid_timestamp
    assert [index for index, _ in refused.value.record_errors] == [0, 2]


def test_a_header_that_only_claims_a_bad_time_is_no_reason() -> None:
    """The records are asked before they are refused."""
    _check(_changed(batch(), max_timestamp=NOW_MS + 2 * HOUR_MS))


def test_not_every_record_of_a_large_bad_batch_is_named() -> None:
    """An answer to a small batch stays small."""
    with pytest.raises(InvalidRecords) as refused:
        _check(batch(5000, timestamp_ms=NOW_MS + 2 * HOUR_MS))
    assert len(refused.value.record_errors) == 1000


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_there_is_not_is_refused(codec: int) -> None:
    """Nobody could read it again. Kafka stumbles here, with UNKNOWN_SERVER_ERROR."""
    assert _refusal(_changed(batch(), attributes=codec)) is ErrorCode.unknown_server_error


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
    """message.timestamp.before.max.ms and after.max.ms; records without a timestamp are left alone."""
    records = batch(timestamp_ms=timestamp)
    if is_refused:
        assert _refusal(records, message_timestamp_before_max_ms=before) is ErrorCode.invalid_timestamp
    else:
        _check(records, message_timestamp_before_max_ms=before)


def test_the_first_record_may_be_the_one_that_is_too_old() -> None:
    """Both ends of a batch are looked at, as far as its header tells them."""
    records = encode_batch([(NOW_MS - 2000, b"k", b"v", ()), (NOW_MS, b"k", b"v", ())])
    assert _refusal(records, message_timestamp_before_max_ms=1000) is ErrorCode.invalid_timestamp


def test_producers_do_not_set_log_append_time() -> None:
    """On such a topic it is INVALID_TIMESTAMP; elsewhere Kafka takes the batch for one of CreateTime."""
    records = batch(log_append_time_ms=NOW_MS)
    assert _refusal(records, message_timestamp_type="LogAppendTime") is ErrorCode.invalid_timestamp
    _check(records)
    config = TopicConfig()
    assert needs_rewrite(read_batch_header(records), config)
    stored = rewrite(records, read_batch_header(records), config, NOW_MS)
    assert read_batch_header(stored).timestamp_type == 0
    assert batch_crc_is_valid(stored, 0, read_batch_header(stored))


def test_a_batch_is_stored_as_it_came_where_nothing_asks_for_more() -> None:
    """compression.type=producer, or the codec that it has already."""
    header = read_batch_header(batch(compression=Compression.LZ4))
    assert not needs_rewrite(header, TopicConfig())
    assert not needs_rewrite(header, TopicConfig(compression_type="lz4"))


def test_log_append_time_is_set_without_opening_the_batch() -> None:
    """Readers see it on every record."""
    records = batch(2, compression=Compression.ZSTD, timestamp_ms=5)
    config = TopicConfig(message_timestamp_type="LogAppendTime")
    header = read_batch_header(records)
    assert needs_rewrite(header, config)
    stored = rewrite(records, header, config, Millis(NOW_MS + 1))
    assert stored[HEADER_SIZE_BYTES:] == records[HEADER_SIZE_BYTES:]
    assert batch_crc_is_valid(stored, 0, read_batch_header(stored))
    assert [record.timestamp_ms for record in decode_batch(stored)] == [NOW_MS + 1] * 2


@pytest.mark.parametrize("name", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topic_may_have_a_codec_of_its_own(name: str) -> None:
    """compression.type: the records stay what they were (I9)."""
    records = batch(5, compression=Compression.GZIP if name != "gzip" else Compression.LZ4, value=bytes(200))
    config = TopicConfig(compression_type=name)
    header = read_batch_header(records)
    assert needs_rewrite(header, config)
    stored = rewrite(records, header, config, NOW_MS)
    stored_header = read_batch_header(stored)
    assert stored_header.compression.name == {"uncompressed": "NONE"}.get(name, name.upper())
    assert batch_crc_is_valid(stored, 0, stored_header)
    assert decode_batch(stored) == decode_batch(records)


def test_a_batch_that_grows_beyond_the_limit_is_refused() -> None:
    """The limit holds for what is stored."""
    records = batch(50, compression=Compression.ZSTD, value=bytes(1000))
    config = TopicConfig(compression_type="uncompressed", max_message_bytes=10_000)
    with pytest.raises(KafkaError) as refused:
        rewrite(records, read_batch_header(records), config, NOW_MS)
    assert refused.value.code is ErrorCode.message_too_large
