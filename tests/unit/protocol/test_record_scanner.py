"""Tests the record scanner: its Python and compiled loops find a batch's records, and rewrite batches as Kafka does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.scanner_loops import LOOPS, compiled_loops, each_loops
from tests.unit.protocol.test_records import JAVA_BATCHES, JAVA_RECORDS, each_codec, unstamped_records, with_payload

from klamm.protocol import record_scanner
from klamm.protocol.compression import DEFAULT_MAX_BYTES, Compression, OpenedData, compress
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import (
    HEADER_SIZE_BYTES,
    BatchHeader,
    batch_crc_is_valid,
    iterate_batches,
    read_batch_header,
)
from klamm.protocol.record_scanner import (
    FoundRecord,
    FoundRecords,
    RecordQuery,
    RecordSpans,
    batches_from,
    find_records,
    open_batch,
    rewrite_batch,
    scan_records,
)
from klamm.protocol.records import Record, UnstampedRecord, decode_batch, encode_batch
from klamm.protocol.types import NO_TIMESTAMP, Millis, Offset
from klamm.protocol.varint import read_varint

_LATER = Millis(1_800_000_000_000)


@pytest.fixture(autouse=True)
def _restore_loops() -> Iterator[None]:
    """Restores the loops of the imported module after each test."""
    module = vars(record_scanner)
    imported = module["_loops"]
    yield
    module["_loops"] = imported


def use(loops: ModuleType) -> None:
    """Makes the scanner use these loops."""
    vars(record_scanner)["_loops"] = loops


def seen(spans: RecordSpans, header: BatchHeader) -> list[Record]:
    """Returns the records that the spans point at."""
    records = []
    for index in range(spans.count):
        timestamp = header.base_timestamp + spans.timestamp_deltas[index]
        assert spans.record_starts[index] < spans.key_starts[index] <= spans.value_starts[index]
        assert spans.headers_ends[index] == spans.record_ends[index]
        records.append(
            Record(
                Offset(header.base_offset + spans.offset_deltas[index]),
                header.max_timestamp if header.timestamp_type else Millis(timestamp),
                _field(spans, spans.key_starts[index], spans.key_ends[index]),
                _field(spans, spans.value_starts[index], spans.value_ends[index]),
                _headers(bytes(spans.body[spans.headers_starts[index] : spans.headers_ends[index]])),
            )
        )
    return records


def _field(spans: RecordSpans, start: int, end: int) -> bytes | None:
    return None if end == -1 else bytes(spans.body[start:end])


def _headers(data: bytes) -> tuple[tuple[str, bytes | None], ...]:
    count, position = read_varint(data, 0)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        length, position = read_varint(data, position)
        key = data[position : position + length].decode("utf-8", "replace")
        length, position = read_varint(data, position + length)
        headers.append((key, data[position : position + length] if length >= 0 else None))
        position += max(length, 0)
    return tuple(headers)


def outcome(read: Any) -> Any:
    """Returns the records that `read` gives, or the code of its KafkaError; other errors fail the test."""
    try:
        return read()
    except KafkaError as error:
        return error.code


@each_loops
@each_codec
def test_sees_what_java_wrote(loops: ModuleType, codec: Compression) -> None:
    """The scanner reads Kafka's own batches, with null keys, null values and headers, under every codec."""
    use(loops)
    batch = JAVA_BATCHES[codec]
    assert seen(scan_records(batch), read_batch_header(batch)) == decode_batch(batch)


@each_loops
@settings(max_examples=examples(60), deadline=None)
@given(records=unstamped_records, codec=st.sampled_from(Compression), prefix=st.binary(max_size=9))
def test_sees_what_was_closed(
    loops: ModuleType, records: list[UnstampedRecord], codec: Compression, prefix: bytes
) -> None:
    """The scanner reads a batch of any codec at any place in a buffer, and ignores the bytes around the batch."""
    use(loops)
    batch = encode_batch(records, base_offset=77, compression=codec)
    spans = scan_records(memoryview(prefix + batch + prefix), len(prefix))
    assert seen(spans, read_batch_header(batch)) == decode_batch(batch)
    assert spans.record_ends[spans.count - 1] == len(spans.body)


@each_loops
def test_an_uncompressed_body_is_not_copied(loops: ModuleType) -> None:
    """The spans of an uncompressed batch point into the caller's bytes."""
    use(loops)
    batch = JAVA_BATCHES[Compression.NONE]
    assert scan_records(batch).body.obj is batch


@each_loops
@settings(max_examples=examples(300), deadline=None)
@given(
    records=unstamped_records,
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=5),
    count_change=st.sampled_from([0, 0, 0, 0, -1, 1, 2**31 - 100, -200]),
)
def test_agrees_on_altered_batches(
    loops: ModuleType, records: list[UnstampedRecord], flips: list[tuple[int, int]], count_change: int
) -> None:
    """In an altered batch the scanner finds the records that `decode_batch` finds, or raises the same error."""
    use(loops)
    original = encode_batch(records)
    payload = bytearray(original[HEADER_SIZE_BYTES:])
    for position, byte in flips:
        payload[position % len(payload)] = byte
    batch = with_payload(original, bytes(payload), records_count=len(records) + count_change)
    header = read_batch_header(batch)
    assert outcome(lambda: seen(scan_records(batch), header)) == outcome(lambda: decode_batch(batch))


@each_loops
@settings(max_examples=examples(300), deadline=None)
@given(payload=st.binary(max_size=60), count=st.integers(-1, 8))
def test_agrees_on_bytes_that_are_no_records(loops: ModuleType, payload: bytes, count: int) -> None:
    """For any bytes in place of the records, the scanner gives the records or the error of `decode_batch`."""
    use(loops)
    batch = with_payload(encode_batch([(0, None, None, ())]), payload, records_count=count)
    header = read_batch_header(batch)
    assert outcome(lambda: seen(scan_records(batch), header)) == outcome(lambda: decode_batch(batch))


@each_loops
@pytest.mark.parametrize(
    ("payload", "count"),
    [
        pytest.param(b"\x0c\x00\x00\x00\x01\x01\x00", 2**31 - 1, id="count beyond the bytes"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x01\x00" * 2, 1, id="more bytes than records"),
        pytest.param(b"\x0e\x00\x00\x00\x01\x01\x00", 1, id="record beyond the batch"),
        pytest.param(b"\x01\x00\x00\x00\x01\x01\x00", 1, id="negative record length"),
        pytest.param(b"\x0e\x00\x00\x00\x01\x01\x00\x00", 1, id="record longer than its fields"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x01\x00" + b"\x0c\x00\x00\x00\x04\x01\x00", 2, id="key beyond the body"),
        pytest.param(b"\x0c\x00\x00\x00\x01\x7e\x00" + bytes(70), 1, id="value into the next record"),
        pytest.param(b"\x18\x00\x00\x00\x01\x01\x02\xfe\xff\xff\xff\x0f\x00", 1, id="huge header key"),
        pytest.param(b"\x18\x00\x00\x00\x01\x01\xfe\xff\xff\xff\x0f\x00\x00", 1, id="very many headers"),
        pytest.param(b"\x14\x00\x00\xff\xff\xff\xff\xff\xff\x01\x00", 1, id="endless varint"),
    ],
)
def test_records_that_lie_are_invalid(loops: ModuleType, payload: bytes, count: int) -> None:
    """Lengths and counts that do not fit each other raise INVALID_RECORD."""
    use(loops)
    batch = with_payload(encode_batch([(0, None, None, ())]), payload, records_count=count)
    with pytest.raises(KafkaError) as refused:
        scan_records(batch)
    assert refused.value.code is ErrorCode.INVALID_RECORD


@each_loops
def test_what_it_takes_is_bounded(loops: ModuleType) -> None:
    """A small batch that decompresses to too many bytes or records is refused before memory is allocated for them."""
    use(loops)
    record = b"\x0c\x00\x00\x00\x01\x01\x00"
    few = encode_batch([(0, None, None, ())], compression=Compression.ZSTD)
    opens_to_much = with_payload(few, compress(Compression.ZSTD, record * 100_000), records_count=100_000)
    assert scan_records(opens_to_much).count == 100_000
    for max_bytes in (600_000, 800_000):  # less than the body, and less than its arrays
        with pytest.raises(KafkaError) as refused:
            scan_records(opens_to_much, max_bytes=max_bytes)
        assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("magic", [0, 1])
def test_older_magic_is_refused_by_name(magic: int) -> None:
    """A batch of an older format raises UNSUPPORTED_FOR_MESSAGE_FORMAT and does not count as damaged."""
    batch = bytearray(JAVA_BATCHES[Compression.NONE])
    batch[16] = magic
    with pytest.raises(KafkaError) as refused:
        scan_records(batch)
    assert refused.value.code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


@pytest.mark.parametrize("cut", [0, 20, HEADER_SIZE_BYTES, HEADER_SIZE_BYTES + 10])
def test_part_of_a_batch_is_refused(cut: int) -> None:
    """A batch that ends too early raises CORRUPT_MESSAGE."""
    with pytest.raises(KafkaError) as refused:
        scan_records(JAVA_BATCHES[Compression.NONE][:cut])
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


# --- rewriting ------------------------------------------------------------------------------------------------------


def rewritten(batch: bytes, keep: Sequence[int], **options: Any) -> bytes:
    """Returns the batch with only the marked records."""
    return bytes(rewrite_batch(read_batch_header(batch), batch, scan_records(batch), bytes(keep), **options))


@each_loops
@settings(max_examples=examples(80), deadline=None)
@given(records=unstamped_records, codec=st.sampled_from(Compression), data=st.data())
def test_rewriting_keeps_what_is_marked(
    loops: ModuleType, records: list[UnstampedRecord], codec: Compression, data: st.DataObject
) -> None:
    """A rewritten batch has the marked records at their offsets, and the producer's and the log's header fields."""
    use(loops)
    keep = data.draw(st.lists(st.sampled_from([0, 1, 255]), min_size=len(records), max_size=len(records)))
    append_time = data.draw(st.none() | st.integers(0, 2**40))
    horizon = data.draw(st.none() | st.just(_LATER))
    batch = encode_batch(
        records,
        base_offset=1000,
        compression=codec,
        producer_id=9,
        producer_epoch=2,
        base_sequence=2**31 - 3,
        partition_leader_epoch=4,
        is_transactional=True,
        log_append_time_ms=append_time,
    )
    before = read_batch_header(batch)
    expected = [record for record, mark in zip(decode_batch(batch), keep, strict=True) if mark]
    result = rewritten(batch, keep, new_delete_horizon_ms=horizon)
    if not expected:
        assert result == b""
        return
    after = read_batch_header(result)
    assert batch_crc_is_valid(result, 0, after)
    assert decode_batch(result) == expected
    assert after.size_bytes == len(result)
    assert after.max_timestamp == (append_time if append_time is not None else max(r.timestamp_ms for r in expected))
    assert after.has_delete_horizon == (horizon is not None and any(record.value is None for record in expected))
    assert (
        after._replace(
            batch_length=before.batch_length,
            crc=before.crc,
            attributes=before.attributes,
            base_timestamp=before.base_timestamp,
            max_timestamp=before.max_timestamp,
            records_count=before.records_count,
        )
        == before
    )
    # Python and compiled loops write the same bytes.
    for other in LOOPS:
        use(other)
        assert rewritten(batch, keep, new_delete_horizon_ms=horizon) == result


@each_loops
def test_a_batch_that_keeps_all_is_not_touched(loops: ModuleType) -> None:
    """If all records are kept, the caller's bytes are returned, with the producer's compression."""
    use(loops)
    batch = JAVA_BATCHES[Compression.GZIP]
    result = rewrite_batch(read_batch_header(batch), batch, scan_records(batch), b"\x01\x01\x01")
    assert isinstance(result, memoryview)
    assert result.obj is batch


@each_loops
def test_an_empty_batch_tells_the_producers_sequence(loops: ModuleType) -> None:
    """With `retain_empty`, a batch without kept records keeps its header, and with it the producer's sequence; only the
    codec and the base timestamp are dropped."""
    use(loops)
    batch = JAVA_BATCHES[Compression.ZSTD]
    before = read_batch_header(batch)
    assert rewritten(batch, [0, 0, 0]) == b""
    result = rewritten(batch, [0, 0, 0], retain_empty=True)
    after = read_batch_header(result)
    assert len(result) == HEADER_SIZE_BYTES
    assert batch_crc_is_valid(result, 0, after)
    assert (after.base_offset, after.last_offset, after.last_sequence) == (
        before.base_offset,
        before.last_offset,
        before.last_sequence,
    )
    assert (after.compression, after.base_timestamp, after.max_timestamp, after.records_count) == (
        Compression.NONE,
        NO_TIMESTAMP,
        before.max_timestamp,
        0,
    )
    # An empty batch is cleaned again in a later round.
    assert scan_records(result).count == 0
    assert rewritten(result, [], retain_empty=True) == result


@each_loops
def test_a_delete_horizon_is_set_once(loops: ModuleType) -> None:
    """The first cleaning that keeps a tombstone sets the delete horizon; later ones keep it. No timestamp changes."""
    use(loops)
    batch = JAVA_BATCHES[Compression.LZ4]
    records = decode_batch(batch)
    first = rewritten(batch, [1, 0, 1], new_delete_horizon_ms=_LATER)
    assert read_batch_header(first).base_timestamp == _LATER
    assert decode_batch(first) == [records[0], records[2]]
    again = rewritten(first, [1, 1], new_delete_horizon_ms=Millis(_LATER + 5))
    assert again == first
    later = rewritten(first, [0, 1], new_delete_horizon_ms=Millis(_LATER + 5))
    assert read_batch_header(later).base_timestamp == _LATER
    assert decode_batch(later) == [records[2]]


@each_loops
def test_a_marker_gets_its_horizon_when_its_transaction_is_gone(loops: ModuleType) -> None:
    """A marker (which has a value) gets a delete horizon only if the caller says that its transaction is empty."""
    use(loops)
    batch = encode_batch([(5, b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x00", ())], is_control=True)
    assert rewritten(batch, [1], new_delete_horizon_ms=_LATER) == batch
    marked = rewritten(batch, [1], new_delete_horizon_ms=_LATER, marks_empty_transaction=True)
    assert read_batch_header(marked).has_delete_horizon
    assert decode_batch(marked) == decode_batch(batch)


@each_loops
def test_timestamps_beyond_64_bits_wrap(loops: ModuleType) -> None:
    """Timestamps beyond 64 bits wrap, as in Kafka, so that a hostile batch cannot stop the cleaning."""
    use(loops)
    record = b"\x1e\x00\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x01\x01\x00"
    batch = with_payload(encode_batch([(2**62, b"k", None, ())]), record * 2, base_timestamp=2**62, records_count=2)
    result = rewritten(batch, [0, 1])
    assert read_batch_header(result).records_count == 1
    for other in LOOPS:
        use(other)
        assert rewritten(batch, [0, 1]) == result


def test_marks_fit_the_records() -> None:
    """A number of marks that differs from the number of records raises ValueError."""
    batch = JAVA_BATCHES[Compression.NONE]
    with pytest.raises(ValueError, match="2 marks for 3 records"):
        rewritten(batch, [1, 1])


def test_compiled_loops_check_the_arrays_that_they_get() -> None:
    """The compiled loops refuse spans that do not fit together, so that they access no byte outside the arrays."""
    loops = compiled_loops()
    spans = scan_records(JAVA_BATCHES[Compression.NONE])
    with pytest.raises(ValueError, match="shorter"):
        loops.count_kept(spans, b"\x01")
    spans.body = spans.body[:10]
    with pytest.raises(ValueError, match="another body"):
        loops.copy_kept(spans, b"\x01\x01\x01", 0, None, None)
    table = loops.OffsetTable(4096, bytes(16))
    spans.key_ends = memoryview(bytes(3 * 4)).cast("i")
    with pytest.raises(ValueError, match="another body"):
        table.put_records(spans, 0, start_offset=0, max_entries=10)


# --- runs of batches ------------------------------------------------------------------------------------------------


@each_loops
@settings(max_examples=examples(100), deadline=None)
@given(
    counts=st.lists(st.integers(1, 5), max_size=6),
    offset=st.integers(0, 30),
    cut=st.integers(0, 200),
    damage=st.none() | st.tuples(st.integers(0, 1_000), st.integers(0, 255)),
)
def test_finds_the_whole_batches_of_an_answer(
    loops: ModuleType, counts: list[int], offset: int, cut: int, damage: tuple[int, int] | None
) -> None:
    """`batches_from` gives the whole batches from the one that contains the offset on. In altered bytes, Python and
    compiled loops give the same result."""
    use(loops)
    log = bytearray()
    for count in counts:
        log += encode_batch([(0, None, b"v", ())] * count, base_offset=len(log) and next_offset(log))
    view = memoryview(bytes(log[: len(log) - cut]) if cut else bytes(log))
    expected = [(at, header) for at, header in iterate_batches(view) if header.next_offset > offset]
    run = batches_from(view, offset)
    if expected:
        assert run is not None
        end = expected[-1][0] + expected[-1][1].size_bytes
        assert run == (view[expected[0][0] : end], expected[-1][1].next_offset)
    else:
        assert run is None
    if damage is not None and log:
        log[damage[0] % len(log)] = damage[1]
        assert len({loops.find_batches(bytes(log), offset) for loops in LOOPS}) == 1


def next_offset(log: bytes | bytearray) -> int:
    """Returns the offset after the last batch."""
    return [header.next_offset for _, header in iterate_batches(log)][-1]


@each_loops
def test_what_can_be_no_batch_is_refused_when_it_stands_first(loops: ModuleType) -> None:
    """Bytes that are no batch raise an error if they come first; otherwise the run ends before them. An incomplete
    first batch gives None."""
    use(loops)
    batch = JAVA_BATCHES[Compression.NONE]
    damaged = bytearray(batch)
    damaged[16] = 9
    run = batches_from(memoryview(batch + damaged), 0)
    assert run is not None
    assert run.records == batch
    with pytest.raises(KafkaError, match="invalid magic 9") as refused:
        batches_from(memoryview(damaged), 0)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    damaged[16] = 1
    with pytest.raises(KafkaError, match="magic 1"):
        batches_from(memoryview(damaged), 0)
    for size in (0, 11, 40, len(batch) - 1):
        assert batches_from(memoryview(batch)[:size], 0) is None


# --- finding records ------------------------------------------------------------------------------------------------


def test_default_bound_is_that_of_records() -> None:
    """The scanner with the default limit reads a batch that `decode_batch` reads."""
    batch = encode_batch(JAVA_RECORDS)
    assert scan_records(batch, max_bytes=DEFAULT_MAX_BYTES).count == len(JAVA_RECORDS)


_queries = st.builds(
    RecordQuery,
    base_timestamp=st.sampled_from([0, 5, -(2**63), 2**63 - 1]),
    append_time=st.sampled_from([None, None, -1, 0, 5]),
    oldest=st.sampled_from([-(2**63), -1, 0, 1, 5, 2**63 - 1]),
    newest=st.sampled_from([-(2**63), -1, 0, 5, 2**62, 2**63 - 1]),
    is_inside=st.booleans(),
    without_key=st.booleans(),
    out_of_sequence=st.booleans(),
    first_offset_delta=st.integers(0, 6),
)


def _is_asked_for(query: RecordQuery, record: Record, timestamp: int, number: int) -> bool:
    is_wanted = (
        query.asks_for_time(timestamp)
        or (query.without_key and record.key is None)
        or (query.out_of_sequence and record.offset != number)
    )
    return is_wanted and record.offset >= query.first_offset_delta


def _as_int64(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


def found_in(loops: ModuleType, opened: OpenedData, count: int, query: RecordQuery, **limits: int) -> FoundRecords:
    """Runs a search to its end and returns what it found."""
    use(loops)
    steps = find_records(opened, count, query, **({"max_records": 1_000_000, "max_found": 1000} | limits))
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: FoundRecords = end.value
            return found


@each_loops
@settings(max_examples=examples(200), deadline=None)
@given(
    records=unstamped_records,
    codec=st.sampled_from(Compression),
    query=_queries,
    max_found=st.integers(1, 4),
    max_records=st.integers(1, 8),
)
def test_finds_the_records_that_are_asked_for(  # noqa: PLR0917 - what hypothesis gives
    loops: ModuleType,
    records: list[UnstampedRecord],
    codec: Compression,
    query: RecordQuery,
    max_found: int,
    max_records: int,
) -> None:
    """The search finds the records that a check of each decoded record finds, up to the first limit."""
    batch = encode_batch(records, compression=codec)
    header = read_batch_header(batch)
    opened = open_batch(batch, 0, header, DEFAULT_MAX_BYTES)
    expected: list[FoundRecord] = []
    walked = 0
    for number, record in enumerate(decode_batch(batch)[:max_records]):
        delta = record.timestamp_ms - header.base_timestamp
        timestamp = _as_int64(query.base_timestamp + delta) if query.append_time is None else query.append_time
        if _is_asked_for(query, record, timestamp, number):
            key_length, value_length = (-1 if data is None else len(data) for data in (record.key, record.value))
            expected.append(FoundRecord(number, record.offset, timestamp, key_length, value_length))
        walked = number + 1
        if len(expected) == max_found:
            break
    found = found_in(loops, opened, len(records), query, max_found=max_found, max_records=max_records)
    assert found == (expected, walked, walked == len(records))


@settings(max_examples=examples(400), deadline=None)
@given(
    records=unstamped_records,
    flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4),
    count_change=st.sampled_from([0, 0, 0, -1, 1, 2**31 - 100, -200]),
    is_whole=st.booleans(),
    cut=st.integers(0, 40),
    query=_queries,
)
def test_both_forms_find_the_same_in_altered_batches(  # noqa: PLR0917 - what hypothesis gives
    records: list[UnstampedRecord],
    flips: list[tuple[int, int]],
    count_change: int,
    is_whole: bool,
    cut: int,
    query: RecordQuery,
) -> None:
    """In altered or incomplete batches, Python and compiled loops find the same records or raise the same error."""
    compiled_loops()
    payload = bytearray(encode_batch(records)[HEADER_SIZE_BYTES:])
    for position, byte in flips:
        payload[position % len(payload)] = byte
    opened = OpenedData(memoryview(bytes(payload[: max(len(payload) - cut, 0)])), is_whole)
    count = len(records) + count_change
    outcomes = [outcome(lambda: found_in(loops, opened, count, query)) for loops in LOOPS]  # noqa: B023 - called at once
    assert outcomes[0] == outcomes[1]


@each_loops
def test_a_walk_pauses(loops: ModuleType) -> None:
    """A search pauses after a number of records, because the Python loops hold the interpreter's lock."""
    use(loops)
    count = 3 * loops.RECORDS_AT_ONCE + 1
    opened = OpenedData(memoryview(b"\x0c\x00\x00\x00\x01\x01\x00" * count), True)
    query = RecordQuery(base_timestamp=0, append_time=None, oldest=1, newest=0, is_inside=True)
    assert sum(1 for _ in find_records(opened, count, query, max_records=count, max_found=1)) == 4
