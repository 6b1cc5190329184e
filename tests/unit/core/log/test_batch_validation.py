"""Tests which batches a leader refuses, and with which error code."""

from __future__ import annotations

from struct import Struct
from typing import Any

import pytest
from tests.support.log_folder import batch

from klamm.config.topic_config import TopicConfig
from klamm.core.log.batch_validation import check_batch, read_single_batch
from klamm.protocol.compression import Compression
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import HEADER_SIZE_BYTES, pack_header, read_batch_header


def _check(records: bytes, *, from_client: bool = True, **config: Any) -> None:
    check_batch(records, read_single_batch(records), TopicConfig(**config), from_client)


def _refusal(records: bytes, *, from_client: bool = True, **config: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        _check(records, from_client=from_client, **config)
    return refused.value.code


def _changed(records: bytes, **fields: Any) -> bytes:
    """Returns the batch with other header fields and a CRC that fits."""
    payload = records[HEADER_SIZE_BYTES:]
    return pack_header(read_batch_header(records)._replace(**fields), payload) + payload


def _old_message(magic: int) -> bytes:
    """Returns a message of magic 0 or 1 with a value of three bytes."""
    body = bytes([magic, 0]) + (bytes(8) if magic else b"") + Struct(">ii").pack(-1, 3) + b"abc"
    return Struct(">qiI").pack(0, len(body) + 4, 0) + body


def test_a_batch_as_clients_send_it_passes() -> None:
    """A valid batch is accepted with every codec, with and without a producer id."""
    for compression in Compression:
        _check(batch(3, compression=compression))
    _check(batch(3, sequence=5, producer_id=1, epoch=0))


@pytest.mark.parametrize("records", [b"", bytes(11), batch()[:-1], batch()[:40], batch() * 2, batch() + batch()])
def test_there_must_be_exactly_one_whole_batch(records: bytes) -> None:
    """No batch, part of a batch, and two batches are INVALID_RECORD."""
    assert _refusal(records) is ErrorCode.INVALID_RECORD


def test_part_of_a_batch_behind_the_first_is_left_out() -> None:
    """Part of a batch after the first one is ignored, as in Kafka, which trims it."""
    _check(batch() + batch()[:30])
    _check(batch() + b"junk")


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_refused_by_name(magic: int) -> None:
    """Messages of an old format, one or several, are refused with an error that names magic version 2."""
    assert _refusal(_old_message(magic)) is ErrorCode.INVALID_RECORD
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
    """Bytes that are no batch are CORRUPT_MESSAGE, at which a client sends the batch again."""
    assert _refusal(records) is ErrorCode.CORRUPT_MESSAGE


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
    """A header with a wrong base offset, count, control bit or sequence is INVALID_RECORD."""
    assert _refusal(_changed(batch(3), **fields)) is ErrorCode.INVALID_RECORD


def test_what_the_broker_writes_may_be_a_control_batch() -> None:
    """The broker itself may write a control batch, because the coordinator's markers are control batches."""
    _check(batch(is_control=True, is_transactional=True), from_client=False)


def test_a_batch_larger_than_the_topic_allows_is_refused_before_its_crc_is_looked_at() -> None:
    """A batch larger than the topic allows is MESSAGE_TOO_LARGE, at which a client splits the batch."""
    records = batch(value=bytes(100))
    assert _refusal(records, max_message_bytes=len(records) - 1) is ErrorCode.MESSAGE_TOO_LARGE
    _check(records, max_message_bytes=len(records))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_there_is_not_is_refused(codec: int) -> None:
    """A batch with an unknown codec, which no reader could open, is refused with Kafka's code UNKNOWN_SERVER_ERROR."""
    assert _refusal(_changed(batch(), attributes=codec)) is ErrorCode.UNKNOWN_SERVER_ERROR
