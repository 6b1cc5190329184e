"""Tests the batch header: its fields, the headers that are refused, and changes that leave the records unread."""

from __future__ import annotations

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.compression import Compression
from klamm.protocol.errors import ErrorCode
from klamm.protocol.record_batch import (
    BATCH_HEADER,
    HEADER_SIZE_BYTES,
    BatchHeader,
    CorruptRecord,
    batch_crc_is_valid,
    increment_sequence,
    iterate_batches,
    pack_header,
    read_batch_header,
    restamp,
)
from klamm.protocol.records import encode_batch
from klamm.protocol.types import LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId

HEADER = BatchHeader(
    Offset(100),
    49,
    LeaderEpoch(4),
    2,
    0xDEADBEEF,
    0,
    9,
    Millis(1000),
    Millis(2000),
    ProducerId(7),
    ProducerEpoch(1),
    2**31 - 5,
    10,
)


def batch(base_offset: int = 0, records_count: int = 2) -> bytes:
    """Returns a batch of small records."""
    return encode_batch([(1000, None, b"value", ())] * records_count, base_offset=base_offset)


@given(
    fields=st.tuples(
        st.integers(-(2**63), 2**63 - 1),
        st.integers(49, 2**31 - 1),
        st.integers(-(2**31), 2**31 - 1),
        st.just(2),
        st.integers(0, 2**32 - 1),
        st.integers(-(2**15), 2**15 - 1),
        st.integers(-(2**31), 2**31 - 1),
        st.integers(-(2**63), 2**63 - 1),
        st.integers(-(2**63), 2**63 - 1),
        st.integers(-(2**63), 2**63 - 1),
        st.integers(-(2**15), 2**15 - 1),
        st.integers(-(2**31), 2**31 - 1),
        st.integers(-(2**31), 2**31 - 1),
    )
)
def test_header_holds_the_fields_in_their_order(fields: tuple[int, ...]) -> None:
    """Each of the thirteen fields is read from its place in the 61 bytes of the header, at any start position."""
    packed = BATCH_HEADER.pack(*fields)
    assert len(packed) == HEADER_SIZE_BYTES
    assert read_batch_header(b"..." + packed, 3) == fields


def test_offsets_and_size_follow_from_the_header() -> None:
    """The size, last offset and next offset of a batch follow from its header, without the records."""
    assert (HEADER.size_bytes, HEADER.last_offset, HEADER.next_offset) == (61, 109, 110)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (0b0000000, (Compression.NONE, 0, False, False, False)),
        (0b0000001, (Compression.GZIP, 0, False, False, False)),
        (0b0000010, (Compression.SNAPPY, 0, False, False, False)),
        (0b0000011, (Compression.LZ4, 0, False, False, False)),
        (0b0000100, (Compression.ZSTD, 0, False, False, False)),
        (0b0001000, (Compression.NONE, 1, False, False, False)),
        (0b0010000, (Compression.NONE, 0, True, False, False)),
        (0b0110000, (Compression.NONE, 0, True, True, False)),
        (0b1000000, (Compression.NONE, 0, False, False, True)),
    ],
)
def test_attributes(attributes: int, expected: tuple[Compression, int, bool, bool, bool]) -> None:
    """Compression, timestamp type, transactional, control and delete horizon each have their own bits."""
    header = HEADER._replace(attributes=attributes)
    assert (
        header.compression,
        header.timestamp_type,
        header.is_transactional,
        header.is_control,
        header.has_delete_horizon,
    ) == expected


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codec_is_corrupt(codec: int) -> None:
    """An unknown codec number raises CorruptRecord when the compression is read, and not before."""
    header = HEADER._replace(attributes=codec)
    with pytest.raises(CorruptRecord):
        _ = header.compression


def test_sequences_wrap() -> None:
    """Sequence numbers continue with 0 after 2**31 - 1, as in Kafka's DefaultRecordBatch.incrementSequence."""
    assert increment_sequence(2**31 - 1, 1) == 0
    assert increment_sequence(2**31 - 5, 9) == HEADER.last_sequence == 4
    assert HEADER._replace(base_sequence=-1).last_sequence == -1


@pytest.mark.parametrize("magic", [0, 1])
def test_old_magic_is_seen(magic: int) -> None:
    """The header of a small message of magic 0 or 1 shows its magic, so that the broker can name the error."""
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=1000)
    builder.append(offset=0, timestamp=None if magic == 0 else 5, key=None, value=b"")
    header = read_batch_header(bytes(builder.build()))
    assert (header.magic, header.base_offset, header.compression) == (magic, 0, Compression.NONE)
    assert header.size_bytes == len(builder.build())


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(batch()[:60], id="less than a header"),
        pytest.param(BATCH_HEADER.pack(*HEADER._replace(batch_length=48)), id="shorter than its header"),
        pytest.param(BATCH_HEADER.pack(*HEADER._replace(batch_length=-1)), id="negative length"),
        pytest.param(BATCH_HEADER.pack(*HEADER._replace(magic=3)), id="magic of the future"),
        pytest.param(BATCH_HEADER.pack(*HEADER._replace(magic=-1)), id="negative magic"),
        pytest.param(BATCH_HEADER.pack(*HEADER._replace(magic=1, batch_length=13)), id="short old message"),
    ],
)
def test_what_is_no_header_is_corrupt(view: bytes) -> None:
    """Too few bytes, an impossible length and an unknown magic raise CORRUPT_MESSAGE."""
    with pytest.raises(CorruptRecord) as refused:
        read_batch_header(view)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_iteration_stops_at_a_partial_batch() -> None:
    """Iteration over batches that are cut anywhere yields the whole batches before the cut, without an error."""
    batches = [batch(0), batch(2, 5), batch(7, 1)]
    view = memoryview(b"".join(batches))
    starts = [0, len(batches[0]), len(batches[0]) + len(batches[1])]
    for cut in range(len(view) + 1):
        whole = [start for start, data in zip(starts, batches, strict=True) if start + len(data) <= cut]
        found = list(iterate_batches(view[:cut]))
        assert [position for position, _ in found] == whole
        assert [header for _, header in found] == [read_batch_header(view, start) for start in whole]


def test_iteration_refuses_what_follows_a_batch() -> None:
    """Bytes after a batch that cannot begin another batch are corrupt; they do not count as a partial batch."""
    with pytest.raises(CorruptRecord):
        list(iterate_batches(batch() + bytes(12)))


def test_crc_covers_everything_from_the_attributes_on() -> None:
    """The CRC covers every byte from the attributes on; base offset and leader epoch may change freely (KIP-98)."""
    original = batch()
    header = read_batch_header(original)
    assert batch_crc_is_valid(original, 0, header)
    for position in range(21, len(original)):
        altered = bytearray(original)
        altered[position] ^= 0x40
        assert not batch_crc_is_valid(altered, 0, header), position
    for position in (*range(8), *range(12, 16)):
        altered = bytearray(original)
        altered[position] ^= 0x40
        assert batch_crc_is_valid(altered, 0, read_batch_header(altered)), position


def test_crc_of_a_cut_batch_is_not_valid() -> None:
    """A batch that extends beyond the view has no valid CRC."""
    assert not batch_crc_is_valid(batch()[:-1], 0, read_batch_header(batch()))


def test_restamp_gives_offset_and_epoch_without_copying() -> None:
    """`restamp` gives sixteen new bytes and a view of the producer's other bytes; the CRC stays valid."""
    original = bytearray(batch())
    prefix, rest = restamp(original, Offset(2**40), LeaderEpoch(6))
    assert rest.obj is original
    stamped = prefix + rest
    header = read_batch_header(stamped)
    assert header == (2**40, header.batch_length, 6, *read_batch_header(original)[3:])
    assert batch_crc_is_valid(stamped, 0, header)


def test_log_append_time_needs_a_new_header_only() -> None:
    """Under LogAppendTime the leader packs a header with its own time and leaves the records unchanged."""
    original = batch()
    payload = memoryview(original)[HEADER_SIZE_BYTES:]
    stamped = pack_header(read_batch_header(original).with_log_append_time(Millis(99)), payload) + payload
    header = read_batch_header(stamped)
    assert (header.timestamp_type, header.max_timestamp, header.base_timestamp) == (1, 99, 1000)
    assert header.size_bytes == len(original)
    assert batch_crc_is_valid(stamped, 0, header)
