"""Tests batches built from columns: Python and compiled loops give batches with the rows, and refuse wrong columns."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.scanner_loops import compiled_loops

from klamm.protocol import _row_encoder_py, batch_building
from klamm.protocol.batch_building import BatchBuilder, BuiltBatch, BytesColumn, HeadersColumn, RecordTooLarge
from klamm.protocol.compression import Compression
from klamm.protocol.record_batch import HEADER_SIZE_BYTES, batch_crc_is_valid, read_batch_header
from klamm.protocol.records import decode_batch
from klamm.protocol.types import Millis

Headers: TypeAlias = list[tuple[str, bytes | None]] | None
Row: TypeAlias = tuple[bytes | None, bytes | None, Headers, int]

_HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


def _restored() -> Iterator[None]:
    before = vars(batch_building)["_loops"]
    yield
    vars(batch_building)["_loops"] = before


_restore = pytest.fixture(autouse=True)(_restored)


def use(loops: ModuleType) -> None:
    vars(batch_building)["_loops"] = loops


def bytes_column(column: pa.Array) -> BytesColumn:
    valid, bounds, data = column.buffers()
    return bounds, data if data is not None else b"", valid, column.offset


def headers_column(column: pa.ListArray) -> HeadersColumn:
    entries = column.values
    return (
        column.buffers()[1],
        column.buffers()[0],
        column.offset,
        bytes_column(entries.field(0)),
        bytes_column(entries.field(1)),
    )


def builder(rows: Sequence[Row], before: int = 0) -> BatchBuilder:
    """Returns a builder over columns of the rows; the columns are slices that begin after `before` other rows."""
    other: list[Row] = [(b"other", b"row", [("x", b"y")], 5)] * before
    keys, values, headers, timestamps = zip(*[*other, *rows], strict=True)
    pairs = [None if each is None else [{"key": key, "value": value} for key, value in each] for each in headers]
    return BatchBuilder(
        len(rows),
        bytes_column(pa.array(values, pa.binary())[before:]),
        keys=bytes_column(pa.array(keys, pa.binary())[before:]),
        headers=headers_column(pa.array(pairs, _HEADERS)[before:]),
        timestamps=(array("q", timestamps), before),
    )


def read(batch: BuiltBatch) -> list[Row]:
    """Returns the rows of a batch as klamm's decoder for whole batches reads them, after checking the batch header."""
    header = read_batch_header(memoryview(batch.data))
    assert batch_crc_is_valid(batch.data, 0, header)
    assert (header.size_bytes, header.records_count) == (len(batch.data), batch.records_count)
    assert (header.base_offset, header.producer_id, header.base_sequence) == (0, -1, -1)
    records = decode_batch(batch.data)
    assert [record.offset for record in records] == list(range(batch.records_count))
    assert header.max_timestamp == max(record.timestamp_ms for record in records)
    return [
        (each.key, each.value, [(name, value) for name, value in each.headers], each.timestamp_ms) for each in records
    ]


_texts = st.none() | st.binary(max_size=40)
_rows = st.lists(
    st.tuples(
        _texts,
        _texts,
        st.none() | st.lists(st.tuples(st.text(max_size=4), _texts), max_size=3),
        st.integers(0, 2**41) | st.integers(-(2**62), 2**62),
    ),
    min_size=1,
    max_size=60,
)


@settings(max_examples=examples(80), deadline=None)
@given(
    rows=_rows,
    before=st.integers(0, 9),
    partition_count=st.integers(1, 5),
    batch_size_bytes=st.integers(0, 600),
    compression=st.sampled_from(Compression),
    by_crc32=st.booleans(),
    draw=st.data(),
)
def test_the_batches_hold_the_rows_of_their_partition(
    *,
    rows: list[Row],
    before: int,
    partition_count: int,
    batch_size_bytes: int,
    compression: Compression,
    by_crc32: bool,
    draw: st.DataObject,
) -> None:
    """The batches of a partition hold its rows in order, and Python and compiled loops build the same bytes."""
    built = []
    chosen = draw.draw(st.lists(st.integers(-1, partition_count - 1), min_size=len(rows), max_size=len(rows)))
    for loops in (_row_encoder_py, compiled_loops()):
        use(loops)
        build = builder(rows, before)
        places = array("i", chosen)
        left = build.place(places, partition_count, by_crc32=by_crc32)
        assert left == places.count(-1)
        keyless = [number for number, place in enumerate(places) if place < 0]
        assert all(rows[number][0] is None or (by_crc32 and not rows[number][0]) for number in keyless)
        for number in keyless:
            places[number] = 0
        batches = list(
            build.batches(places, partition_count, batch_size_bytes=batch_size_bytes, compression=compression)
        )
        built.append((places, batches))
    assert built[0] == built[1]
    places, batches = built[0]
    for partition in range(partition_count):
        found = [row for batch in batches if batch.partition == partition for row in read(batch)]
        expected = [row for row, place in zip(rows, places, strict=True) if place == partition]
        assert found == [(key, value, headers or [], timestamp) for key, value, headers, timestamp in expected]
    for batch in batches:
        assert batch.records_count == 1 or compression or len(batch.data) <= max(batch_size_bytes, HEADER_SIZE_BYTES)


@pytest.fixture(params=["in Python", "compiled"])
def loops(request: pytest.FixtureRequest) -> ModuleType:
    """Makes the test use the Python loops, then the compiled loops."""
    form = _row_encoder_py if request.param == "in Python" else compiled_loops()
    use(form)
    return form


@pytest.mark.usefixtures("loops")
def test_keys_have_the_partitions_of_java() -> None:
    """Keys get the partitions that Java computes; the hashes are those of the test of Kafka's `Utils.murmur2`."""
    hashes = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536, b"abc": 479470107}
    build = BatchBuilder(len(hashes), None, keys=bytes_column(pa.array(list(hashes), pa.binary())))
    places = build.no_places()
    assert build.place(places, 2**31 - 1) == 0
    assert list(places) == [(hash_ & 0x7FFFFFFF) % (2**31 - 1) for hash_ in hashes.values()]


@pytest.mark.usefixtures("loops")
def test_columns_may_be_left_out() -> None:
    """Without columns for keys, headers and timestamps, records have no key, no headers and the same timestamp."""
    build = BatchBuilder(2, bytes_column(pa.array([b"one", None], pa.binary())), timestamp_ms=Millis(7))
    places = build.no_places()
    assert build.place(places, 3) == 2
    (batch,) = build.batches(array("i", [2, 2]), 3, batch_size_bytes=1000)
    assert (batch.partition, read(batch)) == (2, [(None, b"one", [], 7), (None, None, [], 7)])


@pytest.mark.usefixtures("loops")
def test_a_record_that_fits_no_request_is_named() -> None:
    """A record above the size limit raises RecordTooLarge, which names the row, the record's size and the limit."""
    build = BatchBuilder(3, bytes_column(pa.array([b"a", b"b" * 500, b"c"], pa.binary())))
    batches = build.batches(array("i", [0, 0, 0]), 1, batch_size_bytes=100, largest_bytes=400)
    with pytest.raises(RecordTooLarge, match=r"the record of row 1 has 50\d bytes, more than the limit of 339") as info:
        list(batches)
    assert info.value.row == 1


_GOOD: BytesColumn = (array("i", [0, 1, 2]), b"ab", None, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": (array("i", [0, 1]), b"ab", None, 0)}, "shorter"),
        ({"values": (array("i", [0, 1, 2]), b"ab", b"", 0)}, "shorter"),
        ({"values": (array("i", [0, 1, 2]), b"ab", None, -1)}, "before its first"),
        ({"values": (array("i", [0, 1, 2]), b"ab", None, 1)}, "shorter"),
        ({"values": (array("i", [0, 1, 3]), b"ab", None, 0)}, "row 1: the bounds"),
        ({"values": (array("i", [0, 2, 1]), b"ab", None, 0)}, "row 1: the bounds"),
        ({"values": (array("i", [-1, 1, 2]), b"ab", None, 0)}, "row 0: the bounds"),
        ({"values": _GOOD, "keys": (array("i", [0, 1, 9]), b"ab", None, 0)}, "row 1: the bounds"),
        ({"values": _GOOD, "timestamps": (array("q", [0]), 0)}, "shorter"),
        ({"values": _GOOD, "headers": (array("i", [0, 1]), None, 0, _GOOD, _GOOD)}, "shorter"),
        ({"values": _GOOD, "headers": (array("i", [0, 1, 5]), None, 0, _GOOD, _GOOD)}, "row 1: the bounds"),
        ({"values": _GOOD, "headers": (array("i", [0, 2, 1]), None, 0, _GOOD, _GOOD)}, "row 1: the bounds"),
        (
            {"values": _GOOD, "headers": (array("i", [0, 1, 2]), None, 0, (_GOOD[0], b"ab", b"\1", 0), _GOOD)},
            "row 1: a header has no key",
        ),
    ],
)
@pytest.mark.usefixtures("loops")
def test_wrong_columns_are_refused(arguments: dict[str, Any], message: str) -> None:
    """Columns whose buffers do not fit together are refused, so that no byte outside a buffer is read."""
    with pytest.raises(ValueError, match=message):
        list(BatchBuilder(2, **arguments).batches(array("i", [0, 0]), 1, batch_size_bytes=1000))


@pytest.mark.usefixtures("loops")
def test_wrong_places_are_refused() -> None:
    """A partition outside the topic, too few partitions for the rows, and a topic without partitions are refused."""
    build = BatchBuilder(2, _GOOD)
    for places in (array("i", [0, 3]), array("i", [-1, 0])):
        with pytest.raises(ValueError, match="its partition does not exist"):
            list(build.batches(places, 3, batch_size_bytes=1000))
    with pytest.raises(ValueError, match="shorter"):
        list(build.batches(array("i", [0]), 3, batch_size_bytes=1000))
    with pytest.raises(ValueError, match="no partitions"):
        build.place(build.no_places(), 0)
