"""Tests records in batches: encoded batches decode again, and Kafka's Java client, aiokafka and kio agree on them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from aiokafka.record.default_records import (
    DefaultRecordBatch,
    DefaultRecordBatchBuilder,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.records.readers import read_batch
from tests.support.examples import examples

from klamm.protocol.compression import Compression, compress
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import (
    HEADER_SIZE_BYTES,
    CorruptRecord,
    batch_crc_is_valid,
    pack_header,
    read_batch_header,
)
from klamm.protocol.records import (
    Record,
    UnstampedRecord,
    decode_batch,
    decode_records,
    encode_batch,
    iterate_records,
    recompress,
)
from klamm.protocol.types import Millis, Offset

each_codec = pytest.mark.parametrize("codec", Compression)

# Kafka 4.3's MemoryRecordsBuilder built JAVA_BATCHES from these records: base offset 1000, producer 7, epoch 3, base
# sequence 2**31 - 2, leader epoch 9.
JAVA_RECORDS: Sequence[UnstampedRecord] = [
    (1_700_000_000_000, b"key", b"value", ()),
    (1_699_999_999_000, None, bytes(100), [("h", None), ("\u00fc", b"\x01\x02")]),
    (1_700_000_009_000, b"tombstone", None, ()),
]
JAVA_BATCHES = {
    Compression.NONE: bytes.fromhex(
        "00000000000003e8000000c900000009020cdb19b20000000000020000018bcfe568000000018bcfe58b2800000000000000"
        "0700037ffffffe000000031c000000066b65790a76616c756500ea0100cf0f0201c801000000000000000000000000000000"
        "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
        "00000000000000000000000000000000000000000000000000000000000000000000000402680104c3bc0401022200d08c01"
        "0412746f6d6273746f6e650100"
    ),
    Compression.GZIP: bytes.fromhex(
        "00000000000003e80000007c0000000902062cec4d0001000000020000018bcfe568000000018bcfe58b2800000000000000"
        "0700037ffffffe000000031f8b08000000000000ff9361606060cb4eade42a4bcc294d6578c5c8709e9f89f10423031d000b"
        "530623cbe13d2c8c4c4a0c177a1859844af273938a4bf2f352191900efae4f2998000000"
    ),
    Compression.SNAPPY: bytes.fromhex(
        "00000000000003e8000000840000000902117446da0002000000020000018bcfe568000000018bcfe58b2800000000000000"
        "0700037ffffffe0000000382534e415050590000000001000000010000003f9801601c000000066b65790a76616c756500ea"
        "0100cf0f0201c80100fe01008a01006c0402680104c3bc0401022200d08c010412746f6d6273746f6e650100"
    ),
    Compression.LZ4: bytes.fromhex(
        "00000000000003e80000007c00000009028526ac620003000000020000018bcfe568000000018bcfe58b2800000000000000"
        "0700037ffffffe0000000304224d186040823c000000ff0a1c000000066b65790a76616c756500ea0100cf0f0201c8010001"
        "0050f00d0402680104c3bc0401022200d08c010412746f6d6273746f6e65010000000000"
    ),
    Compression.ZSTD: bytes.fromhex(
        "00000000000003e80000007a000000090281fbc44c0004000000020000018bcfe568000000018bcfe58b2800000000000000"
        "0700037ffffffe0000000328b52ffd0058ec010054031c000000066b65790a76616c756500ea0100cf0f0201c80100040268"
        "0104c3bc0401022200d08c010412746f6d6273746f6e650100010081148c01010000"
    ),
}

int64 = st.integers(-(2**63), 2**63 - 1)
nullable_bytes = st.none() | st.binary(max_size=40) | st.sampled_from([bytes(63), bytes(64), bytes(8191), bytes(8192)])
header_keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
timestamps = st.integers(0, 2**62)
unstamped_records = st.lists(
    st.tuples(timestamps, nullable_bytes, nullable_bytes, st.lists(st.tuples(header_keys, nullable_bytes), max_size=2)),
    min_size=1,
    max_size=80,
)


def stamped(records: Sequence[UnstampedRecord], base_offset: int = 0) -> list[Record]:
    """Returns the records as a reader sees them in a batch at this offset."""
    return [
        Record(Offset(base_offset + index), Millis(timestamp), key, value, tuple(headers))
        for index, (timestamp, key, value, headers) in enumerate(records)
    ]


def with_payload(batch: bytes, payload: bytes, **changes: Any) -> bytes:
    """Returns the batch with other records, under a header that fits them."""
    header = read_batch_header(batch)._replace(**changes)
    return pack_header(header, payload) + payload


@each_codec
def test_opens_what_java_wrote(codec: Compression) -> None:
    """A batch of Kafka's own builder, under every codec, has a valid CRC and decodes to the original records."""
    batch = JAVA_BATCHES[codec]
    header = read_batch_header(batch)
    assert batch_crc_is_valid(batch, 0, header)
    assert header.compression is codec
    assert decode_batch(batch) == stamped(JAVA_RECORDS, 1000)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.SNAPPY, Compression.LZ4])
def test_closes_as_java_does(codec: Compression) -> None:
    """A batch equals Kafka's byte for byte, except under gzip and zstd, whose libraries choose other bytes."""
    batch = encode_batch(
        JAVA_RECORDS,
        base_offset=1000,
        compression=codec,
        producer_id=7,
        producer_epoch=3,
        base_sequence=2**31 - 2,
        partition_leader_epoch=9,
    )
    assert batch == JAVA_BATCHES[codec]


@settings(max_examples=examples(60), deadline=None)
@given(records=unstamped_records, codec=st.sampled_from(Compression), base_offset=st.integers(0, 2**62), data=st.data())
def test_round_trip(records: list[UnstampedRecord], codec: Compression, base_offset: int, data: st.DataObject) -> None:
    """An encoded batch decodes to the same records at consecutive offsets, and its header has the expected fields."""
    producer_id, producer_epoch = data.draw(int64), data.draw(st.integers(-(2**15), 2**15 - 1))
    batch = encode_batch(
        records,
        base_offset=base_offset,
        compression=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=5,
        partition_leader_epoch=8,
        is_transactional=True,
    )
    header = read_batch_header(batch)
    assert header.size_bytes == len(batch)
    assert header.records_count == len(records) == header.last_offset_delta + 1
    assert header.base_timestamp == records[0][0]
    assert header.max_timestamp == max(record[0] for record in records)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (producer_id, producer_epoch, 5)
    assert (header.partition_leader_epoch, header.is_transactional, header.is_control) == (8, True, False)
    assert decode_batch(batch) == list(decode_records(batch)) == stamped(records, base_offset)


@settings(max_examples=examples(40), deadline=None)
@given(records=unstamped_records, codec=st.sampled_from([Compression.NONE, Compression.SNAPPY]))
def test_closes_as_aiokafka_does(records: list[UnstampedRecord], codec: Compression) -> None:
    """A batch equals that of aiokafka's builder byte for byte, for codecs that both write in the same way."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=2**31 - 1,
    )
    for offset, (timestamp, key, value, headers) in enumerate(records):
        builder.append(offset, timestamp, key, value, list(headers))
    expected = bytes(builder.build())
    # aiokafka leaves a batch uncompressed where compressing gains nothing.
    assert encode_batch(records, compression=read_batch_header(expected).compression) == expected


@settings(max_examples=examples(40), deadline=None)
@given(records=unstamped_records, codec=st.sampled_from(Compression))
def test_aiokafka_opens_what_was_closed(records: list[UnstampedRecord], codec: Compression) -> None:
    """aiokafka finds the same records in a batch of every codec and accepts its CRC."""
    batch = DefaultRecordBatch(encode_batch(records, compression=codec, base_offset=10))
    assert batch.validate_crc()
    opened = [(record.offset, record.timestamp, record.key, record.value, tuple(record.headers)) for record in batch]
    assert opened == stamped(records, 10)


def test_kio_opens_what_was_closed() -> None:
    """kio finds the same records in an uncompressed batch."""
    encoded = encode_batch(JAVA_RECORDS, base_offset=1000)
    batch, end = read_batch(encoded, 0)
    assert end == len(encoded)
    opened = [
        (int(record.offset), round(record.timestamp.timestamp() * 1000), record.key, record.value)
        for record in batch.records
    ]
    expected: list[tuple[int, int, bytes | None, bytes | None]] = [record[:4] for record in stamped(JAVA_RECORDS, 1000)]
    assert opened == expected


def test_log_append_time_stands_on_every_record() -> None:
    """Under LogAppendTime readers see the leader's time on every record, not the producer's."""
    batch = encode_batch(JAVA_RECORDS, log_append_time_ms=5)
    assert read_batch_header(batch).timestamp_type == 1
    assert {record.timestamp_ms for record in decode_batch(batch)} == {5}


def test_decode_records_reads_across_batches_up_to_a_partial_one() -> None:
    """`decode_records` gives the records of all whole batches and ignores a partial one, which may end a fetch."""
    first = encode_batch(JAVA_RECORDS, base_offset=0, compression=Compression.ZSTD)
    second = encode_batch(JAVA_RECORDS, base_offset=3)
    both = stamped(JAVA_RECORDS, 0) + stamped(JAVA_RECORDS, 3)
    for cut in range(len(second)):
        assert list(decode_records(memoryview(first + second)[: len(first) + cut])) == both[:3]
    assert list(decode_records(first + second)) == both


@pytest.mark.parametrize("start_offset", range(8))
def test_decode_records_starts_where_it_is_told(start_offset: int) -> None:
    """`decode_records` leaves out records before the wanted offset, because a fetch brings whole batches."""
    view = encode_batch(JAVA_RECORDS, base_offset=0) + encode_batch(JAVA_RECORDS, base_offset=3)
    assert [record.offset for record in decode_records(view, start_offset)] == list(range(start_offset, 6))


def test_decode_records_leaves_out_control_batches() -> None:
    """`decode_records` leaves out transaction markers, which no application may see."""
    marker = encode_batch([(0, b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x0b", ())], is_control=True)
    assert list(decode_records(marker + encode_batch(JAVA_RECORDS, base_offset=1))) == stamped(JAVA_RECORDS, 1)
    assert len(decode_batch(marker)) == 1


def test_decode_records_checks_the_crc() -> None:
    """`decode_records` raises CorruptRecord for a batch with a flipped bit."""
    batch = bytearray(encode_batch(JAVA_RECORDS))
    batch[-1] ^= 1
    with pytest.raises(CorruptRecord):
        list(decode_records(batch))


@each_codec
@pytest.mark.parametrize("target", Compression)
def test_recompress_changes_the_codec_only(codec: Compression, target: Compression) -> None:
    """`recompress` keeps records, offsets, producer and timestamps under another codec, and the CRC is valid."""
    batch = b"before" + JAVA_BATCHES[codec] + b"after"
    header = read_batch_header(batch, 6)
    changed = recompress(batch, 6, header, target)
    changed_header = read_batch_header(changed)
    assert changed_header == header.with_compression(target)._replace(
        batch_length=changed_header.batch_length, crc=changed_header.crc
    )
    assert changed_header.size_bytes == len(changed)
    assert batch_crc_is_valid(changed, 0, changed_header)
    assert decode_batch(changed) == stamped(JAVA_RECORDS, 1000)


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec])
def test_bomb_is_refused(codec: Compression) -> None:
    """A small batch that would decompress to more than the limit raises CORRUPT_MESSAGE."""
    bomb = encode_batch([(0, None, bytes(10_000_000), ())], compression=codec)
    with pytest.raises(KafkaError) as refused:
        decode_batch(bomb, max_bytes=1_000_000)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_batch_of_no_records_cannot_be_made() -> None:
    """A batch needs at least one record, because the format has no other way to say where the batch ends."""
    with pytest.raises(ValueError, match="at least one record"):
        encode_batch([])


@pytest.mark.parametrize("magic", [0, 1])
def test_older_magic_is_refused_by_name(magic: int) -> None:
    """Records of magic 0 and 1, which no log holds any more (KIP-724), raise UNSUPPORTED_FOR_MESSAGE_FORMAT."""
    batch = bytearray(encode_batch(JAVA_RECORDS))
    batch[16] = magic
    for read in (decode_batch, lambda view: list(decode_records(view))):
        with pytest.raises(KafkaError) as refused:
            read(batch)
        assert refused.value.code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        pytest.param(b"\x0c\x00\x00\x00\x01\x01\x00", 2**31 - 1, id="count beyond the bytes"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x01\x00", -1, id="negative count"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x01\x00" * 2, 1, id="more bytes than records"),
        pytest.param(b"\x0e\x00\x00\x00\x01\x01\x00", 1, id="record beyond the batch"),
        pytest.param(b"\x01\x00\x00\x00\x01\x01\x00", 1, id="negative record length"),
        pytest.param(b"\x0e\x00\x00\x00\x01\x01\x00\x00", 1, id="record longer than its fields"),
        pytest.param(b"\x0c\x00\x00\x00\x7e\x01\x00", 1, id="key beyond the record"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x7e\x00", 1, id="value beyond the record"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x01\x7e", 1, id="headers beyond the record"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x01\x01", 1, id="negative count of headers"),
        pytest.param(b"\x10\x00\x00\x00\x01\x01\x02\x01\x00", 1, id="header without a key"),
        pytest.param(b"\x14\x00\x00\xff\xff\xff\xff\xff\xff\x01\x00", 1, id="endless varint"),
    ],
)
def test_records_that_lie_are_invalid(payload: bytes, count: int) -> None:
    """Lengths and counts that do not fit each other raise INVALID_RECORD, as in Kafka."""
    batch = with_payload(encode_batch([(0, None, None, ())]), payload, records_count=count)
    with pytest.raises(KafkaError) as refused:
        decode_batch(batch)
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_records_come_one_at_a_time() -> None:
    """`iterate_records` makes each record on demand, so that a large batch is never in memory as objects."""
    record = b"\x0c\x00\x00\x00\x01\x01\x00"
    payload = compress(Compression.ZSTD, record * 100_000 + b"\x01" * 7)
    batch = with_payload(
        encode_batch([(0, None, None, ())], compression=Compression.ZSTD), payload, records_count=100_001
    )
    records = iterate_records(batch)
    assert next(records) == Record(Offset(0), Millis(0), None, None, ())
    with pytest.raises(KafkaError):
        assert sum(1 for _ in records) == 99_999


def test_any_negative_length_is_null() -> None:
    """Any negative length of a key or value means null, not only -1, as in Kafka."""
    batch = with_payload(encode_batch([(0, None, None, ())]), b"\x0c\x00\x00\x00\x03\x05\x00")
    assert decode_batch(batch) == [Record(Offset(0), Millis(0), None, None, ())]


@settings(max_examples=examples(200), deadline=None)
@given(records=unstamped_records, codec=st.sampled_from(Compression), data=st.data())
def test_altered_batches_raise_nothing_else(
    records: list[UnstampedRecord], codec: Compression, data: st.DataObject
) -> None:
    """A damaged batch whose CRC is not checked decodes to records or raises KafkaError, and no other error."""
    batch = bytearray(encode_batch(records[:5], compression=codec))
    for _ in range(data.draw(st.integers(1, 5))):
        batch[data.draw(st.integers(HEADER_SIZE_BYTES - 4, len(batch) - 1))] = data.draw(st.integers(0, 255))
    with suppress(KafkaError):
        decode_batch(batch, max_bytes=2**20)
    with suppress(KafkaError):
        decode_batch(memoryview(batch)[: data.draw(st.integers(0, len(batch)))], max_bytes=2**20)
