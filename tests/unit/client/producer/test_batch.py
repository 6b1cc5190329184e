"""Tests that a stamp changes only the producer's fields, and that a finished batch is checked before it is accepted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.client.producer.batch import NO_IDENTITY, PendingBatch, ProducerIdentity, record_size_bytes, stamp
from klamm.protocol.compression import Compression
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import batch_crc_is_valid, pack_header, read_batch_header
from klamm.protocol.records import UnstampedRecord, decode_batch, encode_batch
from klamm.protocol.types import Millis, PartitionIndex, ProducerEpoch, ProducerId, TopicPartition

PLACE = TopicPartition("t", PartitionIndex(0))
NOW = Millis(0)
RECORDS = st.lists(
    st.tuples(
        st.integers(min_value=0, max_value=2**40),
        st.none() | st.binary(max_size=20),
        st.none() | st.binary(max_size=20),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2),
    ),
    min_size=1,
    max_size=5,
)


@given(RECORDS, st.sampled_from(Compression), st.booleans())
def test_a_stamp_sets_the_producers_fields(
    records: list[UnstampedRecord], compression: Compression, transactional: bool
) -> None:
    """A stamp sets identity, sequence and transactional bit and clears base offset and leader epoch; the records stay
    unchanged."""
    batch = encode_batch(
        records, compression=compression, base_offset=77, partition_leader_epoch=5, is_transactional=True
    )
    identity = ProducerIdentity(ProducerId(9), ProducerEpoch(3))
    stamped = b"".join(stamp(batch, identity, 21, is_transactional=transactional))
    header = read_batch_header(stamped)
    assert batch_crc_is_valid(stamped, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 3, 21)
    assert (header.base_offset, header.partition_leader_epoch) == (0, -1)
    assert header.is_transactional == transactional
    assert header.compression is compression
    plain = [(record.timestamp_ms, record.key, record.value, list(record.headers)) for record in decode_batch(stamped)]
    assert plain == records


def test_a_stamp_without_identity_removes_one() -> None:
    """A stamp without identity removes the identity of the batch, as for a batch from a log and a producer that is
    not idempotent."""
    batch = encode_batch([(1, None, b"v", ())], producer_id=5, producer_epoch=1, base_sequence=8)
    header = read_batch_header(b"".join(stamp(batch)))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (*NO_IDENTITY, -1)


@given(RECORDS)
def test_the_size_of_a_record_is_an_upper_limit(records: list[UnstampedRecord]) -> None:
    """A batch is never larger than the sum of its records' counted sizes."""
    counted = sum(record_size_bytes(key, value, headers) for _, key, value, headers in records)
    assert len(encode_batch(records)) <= 61 + counted


def _plain() -> bytes:
    return encode_batch([(1, b"k", b"v", ()), (2, None, b"w", ())])


def _with(**fields: Any) -> bytes:
    batch = _plain()
    return pack_header(read_batch_header(batch)._replace(**fields), batch[61:]) + batch[61:]


def _damaged() -> bytes:
    batch = bytearray(_plain())
    batch[-1] ^= 1
    return bytes(batch)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (_damaged, ErrorCode.CORRUPT_MESSAGE),
        (lambda: _plain()[:40], ErrorCode.CORRUPT_MESSAGE),
        (lambda: b"", ErrorCode.CORRUPT_MESSAGE),
        (lambda: _plain() + _plain(), ErrorCode.INVALID_RECORD),
        (lambda: _plain()[:-1], ErrorCode.INVALID_RECORD),
        (lambda: _with(records_count=1), ErrorCode.INVALID_RECORD),
        (lambda: _with(records_count=0, last_offset_delta=-1), ErrorCode.INVALID_RECORD),
        (lambda: _with(attributes=0x08), ErrorCode.INVALID_RECORD),
        (lambda: _with(attributes=0x40), ErrorCode.INVALID_RECORD),
        (lambda: _with(attributes=0x07), ErrorCode.INVALID_RECORD),
        (lambda: encode_batch([(1, b"k", b"v", ())], is_control=True), ErrorCode.INVALID_RECORD),
    ],
    ids=[
        "crc",
        "short",
        "empty",
        "two",
        "truncated",
        "holes",
        "no records",
        "append time",
        "horizon",
        "codec",
        "marker",
    ],
)
def test_what_is_no_whole_batch_of_a_producer_is_refused(make: Callable[[], bytes], code: ErrorCode) -> None:
    """Only one whole batch with a valid CRC, consecutive offsets and its producer's timestamps is accepted."""
    with pytest.raises(KafkaError) as refused:
        PendingBatch.finished(PLACE, make(), NOW)
    assert refused.value.code is code


def test_a_split_batch_tells_each_record_where_it_is() -> None:
    """The deliveries of a split batch get offsets and errors from the parts with their records; a callback waits for
    all parts."""
    batch = PendingBatch(PLACE, NOW)
    deliveries = [batch.append((1, None, b"%d" % number, ()), 40) for number in range(5)]
    called: list[bool] = []
    deliveries[4].add_callback(lambda: called.append(True))
    batch.encode(Compression.NONE, None)
    parts = batch.split(61 + 2 * 24)
    assert [part.records_count for part in parts] == [2, 2, 1]
    parts[0].end(None, 100)
    parts[1].end(ValueError("no"))
    assert [delivery.offset for delivery in deliveries] == [100, 101, None, None, None]
    assert [delivery.error is not None for delivery in deliveries] == [False, False, True, True, False]
    assert not called
    parts[2].end(None, 200)
    assert called
    assert deliveries[4].offset == 200
