"""Tests that both forms of the column filler agree with the record decoder, and that damaged batches are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.scanner_loops import compiled_loops
from tests.unit.protocol.test_records import JAVA_BATCHES

from klamm.protocol.compression import Compression
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import HEADER_SIZE_BYTES, BatchHeader, read_batch_header
from klamm.protocol.records import Record, UnstampedRecord, decode_batch, decode_records, encode_batch
from klamm.protocol.types import Millis, Offset
from klamm.spark.source.tasks.columns import ColumnFiller, CompiledColumnFiller, RecordColumns
from klamm.spark.source.tasks.numpy_columns import NumpyColumnFiller

_nullable = st.none() | st.binary(max_size=300)
_headers = st.lists(st.tuples(st.text(max_size=8), _nullable), max_size=3)
_timestamps = st.integers(min_value=-1, max_value=2**41)
_records = st.lists(st.tuples(_timestamps, _nullable, _nullable, _headers), min_size=1, max_size=30)
_END = 2**63 - 1
_LATEST_MS = (2**63 - 1) // 1000
"""The largest time in milliseconds that fits into 64 bits as microseconds."""

MakeFiller = Callable[..., ColumnFiller]


def compiled(max_rows: int, max_bytes: int, *, include_headers: bool = True) -> ColumnFiller:
    """Returns the compiled form of the filler; skips the test if that form is not available."""
    compiled_loops()
    return CompiledColumnFiller(max_rows, max_bytes, include_headers=include_headers)


def in_numpy(max_rows: int, max_bytes: int, *, include_headers: bool = True) -> ColumnFiller:
    """Returns the numpy form of the filler."""
    return NumpyColumnFiller(max_rows, max_bytes, include_headers=include_headers)


each_form = pytest.mark.parametrize("make", [compiled, in_numpy])


def tables(
    make: MakeFiller,
    log: bytes,
    start: int = 0,
    end: int = _END,
    *,
    max_rows: int = 20_000,
    max_bytes: int = 1 << 20,
    check_crcs: bool = True,
    include_headers: bool = True,
) -> Iterator[RecordColumns]:
    """Yields the tables of a log of uncompressed batches, gathered as the source does."""
    filler = make(max_rows, max_bytes, include_headers=include_headers)
    filler.set_range(start, end)
    records = memoryview(log)
    position = 0
    while position < len(records):
        position = filler.add_plain_batches(records, position, check_crcs=check_crcs, with_transactions=True)
        if not filler.is_full and position < len(records):
            header = read_batch_header(records, position)
            body = records[position + HEADER_SIZE_BYTES : position + header.size_bytes]
            yield from in_parts(filler, body, header)
            position += header.size_bytes
        elif filler.rows:
            yield filler.take()


def in_parts(filler: ColumnFiller, body: memoryview, header: BatchHeader) -> Iterator[RecordColumns]:
    """Yields the tables of one batch of any size."""
    position, left = 0, header.records_count
    while True:
        position, left = filler.add_records(
            body,
            position,
            left,
            base_offset=header.base_offset,
            base_timestamp=header.base_timestamp,
            append_time=header.max_timestamp if header.timestamp_type else None,
        )
        if not left:
            break
        yield filler.take()
    if filler.rows:
        yield filler.take()


def rows_of(columns: RecordColumns) -> list[Record]:
    """Returns the rows as records, and validates every array by Arrow's own rules."""
    for column in columns[1:]:
        if isinstance(column, pa.Array):
            column.validate(full=True)
            assert len(column) == columns.rows
    headers = [None] * columns.rows if columns.headers is None else columns.headers.to_pylist()
    return [
        Record(
            Offset(offset),
            Millis(timestamp.value // 1000),
            key,
            value,
            tuple((header["key"], header["value"]) for header in headers_of_row or ()),
        )
        for offset, timestamp, key, value, headers_of_row in zip(
            columns.offsets.to_pylist(),
            columns.timestamps,
            columns.keys.to_pylist(),
            columns.values.to_pylist(),
            headers,
            strict=True,
        )
    ]


def opened(make: MakeFiller, log: bytes, start: int = 0, end: int = _END, **limits: int) -> list[Record]:
    return [record for columns in tables(make, log, start, end, **limits) for record in rows_of(columns)]  # type: ignore[arg-type]


def written(batches: list[list[UnstampedRecord]], log_append_time_ms: int | None = None) -> bytes:
    data = b""
    offset = 0
    for records in batches:
        data += encode_batch(records, base_offset=offset, log_append_time_ms=log_append_time_ms)
        offset += len(records)
    return data


@each_form
@settings(max_examples=examples(100), deadline=None)
@given(
    batches=st.lists(_records, min_size=1, max_size=5),
    log_append_time_ms=st.none() | _timestamps,
    max_rows=st.integers(1, 40),
    max_bytes=st.integers(1, 5_000),
)
def test_columns_hold_the_records_of_all_batches(
    make: MakeFiller,
    batches: list[list[UnstampedRecord]],
    log_append_time_ms: int | None,
    max_rows: int,
    max_bytes: int,
) -> None:
    """The columns equal the decoded records for all timestamp types, nulls and headers, and for tables of any size."""
    log = written(batches, log_append_time_ms)

    assert opened(make, log, max_rows=max_rows, max_bytes=max_bytes) == list(decode_records(log))
    assert opened(make, log) == list(decode_records(log))


@settings(max_examples=examples(300), deadline=None)
@given(
    batches=st.lists(
        st.lists(
            st.sampled_from([0, _LATEST_MS, _LATEST_MS + 1, -_LATEST_MS, -_LATEST_MS - 1])
            | st.integers(1 - 2**62, 2**62 - 1),
            min_size=1,
            max_size=3,
        ),
        min_size=1,
        max_size=3,
    ),
    append_time=st.none() | st.sampled_from([0, _LATEST_MS, _LATEST_MS + 1]),
    bounds=st.tuples(st.integers(0, 4), st.integers(1, 9)),
)
def test_both_forms_refuse_a_time_that_spark_can_not_hold(
    batches: list[list[int]], append_time: int | None, bounds: tuple[int, int]
) -> None:
    """Both forms refuse the first requested record whose time is too large for Spark, in the same words; the limit
    itself is read."""
    log = written([[(timestamp, None, b"v", []) for timestamp in batch] for batch in batches], append_time)
    start, end = bounds
    stamps = [timestamp if append_time is None else append_time for batch in batches for timestamp in batch]
    wanted = list(enumerate(stamps))[start:end]
    refused = next(((offset, timestamp) for offset, timestamp in wanted if abs(timestamp) > _LATEST_MS), None)

    for make in (compiled, in_numpy):
        if refused is None:
            read = [(record.offset, record.timestamp_ms) for record in opened(make, log, start, end)]
            assert read == wanted
        else:
            words = "INVALID_RECORD: the record at offset {} has the timestamp {}, which is beyond".format(*refused)
            with pytest.raises(KafkaError, match=words):
                opened(make, log, start, end)


@each_form
@settings(max_examples=examples(100), deadline=None)
@given(batches=st.lists(_records, min_size=1, max_size=4), bounds=st.tuples(st.integers(-1, 99), st.integers(0, 120)))
def test_only_offsets_of_the_range_are_taken(
    make: MakeFiller, batches: list[list[UnstampedRecord]], bounds: tuple[int, int]
) -> None:
    """Only offsets of the requested range are taken; the first and the last batch of a fetch may extend beyond that
    range."""
    log = written(batches)
    start, end = bounds

    assert opened(make, log, start, end) == [r for r in decode_records(log) if start <= r.offset < end]


@settings(max_examples=examples(300), deadline=None)
@given(
    records=_records,
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4),
    count_change=st.sampled_from([0, 0, 0, 0, -1, 1, 2**31 - 100, -200]),
)
def test_both_forms_agree_with_the_decoder_on_altered_batches(
    records: list[UnstampedRecord], flips: list[tuple[int, int]], count_change: int
) -> None:
    """For altered bytes, both forms give the same records as the decoder, or a `KafkaError` with the same code.

    Times that the decoder can hold and Spark can't are no difference.
    """
    batch = bytearray(encode_batch(records))
    for place, byte in flips:
        batch[HEADER_SIZE_BYTES + place % (len(batch) - HEADER_SIZE_BYTES)] = byte
    batch[57:61] = (len(records) + count_change & 0xFFFF_FFFF).to_bytes(4, "big")

    expected = outcome(lambda: refuse_what_overflows(decode_batch(batch)))
    for make in (compiled, in_numpy):
        assert outcome(lambda make=make: opened(make, bytes(batch), -(2**40), check_crcs=False)) == expected  # type: ignore[misc]


def refuse_what_overflows(records: list[Record]) -> list[Record]:
    """Refuses times that Spark can't hold, as columns do."""
    if any(abs(record.timestamp_ms) > _LATEST_MS for record in records):
        raise KafkaError(ErrorCode.INVALID_RECORD, "a time that Spark can't hold")
    return records


def outcome(read: Callable[[], list[Record]]) -> object:
    """Returns the records with zeroed timestamps, which altered batches can make too large, or the error's code."""
    try:
        return [record._replace(timestamp_ms=Millis(0)) for record in read()]
    except KafkaError as error:
        return error.code


@each_form
@pytest.mark.parametrize("size", [0, 1, 31, 32, 33, 63, 64, 8191, 8192, 1_048_576, 3_000_000])
def test_values_of_every_length_are_found(make: MakeFiller, size: int) -> None:
    """Values of every length are found; lengths are varints of one to four bytes, and short values are copied
    differently."""
    data = written([[(1, b"k", b"v" * size, []), (2, None, b"after", [])]])

    assert [record.value for record in opened(make, data)] == [b"v" * size, b"after"]


@each_form
def test_tables_are_as_large_as_they_may_be(make: MakeFiller) -> None:
    """A table takes whole batches while they fit; a batch that is too large for any table is split."""
    log = written([[(0, None, b"v", [])] * count for count in (40, 40, 40, 250)])

    assert [columns.rows for columns in tables(make, log, max_rows=100)] == [80, 100, 100, 90]


@each_form
def test_a_record_that_is_too_large_has_a_table_of_its_own(make: MakeFiller) -> None:
    """Tables are limited by bytes and by rows, but a record larger than the limit gets its own table."""
    large: list[UnstampedRecord] = [(0, None, b"v" * 5000, [])]
    log = written([[(0, None, b"v", [])] * 3, large, large, [*large, *large, (0, None, b"v", [])]])

    assert [columns.rows for columns in tables(make, log, max_bytes=4000)] == [3, 1, 1, 1, 1, 1]


@each_form
def test_without_headers_asked_for_there_is_no_such_column(make: MakeFiller) -> None:
    """Without `include_headers` there is no headers column, and a record that has headers is still read."""
    log = written([[(0, b"k", b"v", [("a", None)])]])

    (columns,) = tables(make, log, include_headers=False)

    assert columns.headers is None
    assert columns.values.to_pylist() == [b"v"]


@each_form
def test_a_record_without_headers_has_null(make: MakeFiller) -> None:
    """A record without headers has null, as in Spark's source, not an empty list. Invalid UTF-8 in a key is replaced
    as in Java."""
    log = written([[(0, b"k", b"v", []), (0, b"k", b"v", [("ä", b"1"), ("b", None)])]])
    log = log.replace("ä".encode(), b"\xff\xe4")

    (columns,) = tables(make, log, check_crcs=False)

    assert columns.headers is not None
    assert columns.headers.to_pylist() == [None, [{"key": "\ufffd\ufffd", "value": b"1"}, {"key": "b", "value": None}]]


@each_form
def test_what_kafka_wrote_is_read(make: MakeFiller) -> None:
    """A batch that Kafka wrote, with null keys, null values and headers, is read correctly."""
    batch = JAVA_BATCHES[Compression.NONE]

    assert opened(make, batch) == decode_batch(batch)


@each_form
@pytest.mark.parametrize(
    ("attributes", "with_transactions", "goes_on"),
    [(0, False, True), (0x10, True, True), (0x10, False, False), (0x20, True, False), (4, True, False)],
    ids=["plain", "transaction that may be seen", "transaction", "control", "compressed"],
)
def test_batches_that_need_a_closer_look_are_left_to_the_caller(
    make: MakeFiller, attributes: int, with_transactions: bool, goes_on: bool
) -> None:
    """The filler stops before a batch that needs closer inspection, and keeps the rows before that batch."""
    first, second = (encode_batch([(0, None, b"v", ())], base_offset=offset) for offset in (0, 1))
    log = bytearray(first + second)
    log[len(first) + 22] |= attributes
    filler = make(100, 10_000, include_headers=False)

    reached = filler.add_plain_batches(memoryview(log), 0, check_crcs=False, with_transactions=with_transactions)

    assert (reached, filler.rows) == ((len(log), 2) if goes_on else (len(first), 1))


@each_form
@pytest.mark.parametrize("place", [8, 16, 40, -1], ids=["length", "magic", "header", "record"])
def test_a_damaged_batch_is_left_to_the_caller(make: MakeFiller, place: int) -> None:
    """The filler stops before a damaged batch, because the caller can report what is wrong with the batch."""
    (first, second) = (encode_batch([(0, None, b"v", ())], base_offset=offset) for offset in (0, 1))
    damaged = bytearray(second)
    damaged[place] ^= 0x40
    filler = make(100, 10_000, include_headers=False)

    assert filler.add_plain_batches(memoryview(first + damaged), 0, check_crcs=True, with_transactions=True) == len(
        first
    )


@each_form
def test_columns_outlive_their_filler(make: MakeFiller) -> None:
    """A table that was handed on is never overwritten, even after its filler is gone."""
    filler = make(100, 1 << 20, include_headers=False)
    taken = []
    for number in range(50):
        log = memoryview(encode_batch([(number, b"%d" % number, b"v" * number, ())]))
        filler.add_plain_batches(log, 0, check_crcs=True, with_transactions=True)
        taken.append(filler.take())
    del filler

    assert [columns.keys.to_pylist() for columns in taken] == [[b"%d" % number] for number in range(50)]
    assert [columns.values.to_pylist() for columns in taken] == [[b"v" * number] for number in range(50)]


@each_form
def test_an_empty_table_can_be_taken(make: MakeFiller) -> None:
    """The columns of an empty table are valid and have no rows."""
    filler = make(100, 1 << 20)

    assert rows_of(filler.take()) == []


@each_form
@settings(max_examples=examples(50), deadline=None)
@given(
    parts=st.lists(st.tuples(_records, st.integers(0, 35), st.integers(0, 35)), min_size=1, max_size=6),
    max_rows=st.integers(1, 60),
)
def test_a_table_may_hold_several_ranges(
    make: MakeFiller, parts: list[tuple[list[UnstampedRecord], int, int]], max_rows: int
) -> None:
    """A table can hold several ranges, each with its own bounds, and records which range each row belongs to."""
    filler = make(max_rows, 1 << 20, include_headers=True)
    found: list[tuple[int, Record]] = []

    def take() -> None:
        columns = filler.take()
        numbers = [number for number, rows in columns.ranges for _ in range(rows)]
        assert all(rows for _, rows in columns.ranges)
        found.extend(zip(numbers, rows_of(columns), strict=True))

    expected = []
    for number, (records, start, end) in enumerate(parts):
        filler.set_range(start, end, number)
        log = written([records])
        expected += [(number, record) for record in decode_records(log) if start <= record.offset < end]
        header = read_batch_header(memoryview(log), 0)
        position, left = 0, header.records_count
        while left:
            position, left = filler.add_records(
                memoryview(log)[HEADER_SIZE_BYTES:],
                position,
                left,
                base_offset=header.base_offset,
                base_timestamp=header.base_timestamp,
                append_time=None,
            )
            if filler.is_full:
                take()
    take()

    assert found == expected
