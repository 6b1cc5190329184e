"""Columns of record batches hold what the record decoder says that the batches hold, and damage is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from klamm.protocol.compression import Compression
from klamm.protocol.errors import KafkaError
from klamm.protocol.record_batch import HEADER_SIZE_BYTES, iterate_batches
from klamm.protocol.records import Record, decode_records, encode_batch
from klamm.protocol.types import Millis, Offset
from klamm.spark.source.columns import ClosedBatch, open_batches

Unstamped = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]

_nullable = st.none() | st.binary(max_size=300)
_headers = st.lists(st.tuples(st.text(max_size=8), _nullable), max_size=3)
_timestamps = st.integers(min_value=-1, max_value=2**41)
_records = st.lists(st.tuples(_timestamps, _nullable, _nullable, _headers), min_size=1, max_size=30)


def closed(data: bytes) -> list[ClosedBatch]:
    view = memoryview(data)
    return [ClosedBatch(header, view[start : start + header.size_bytes]) for start, header in iterate_batches(view)]


def opened(data: bytes, start: int = 0, end: int = 2**63 - 1) -> list[Record]:
    columns = open_batches(closed(data), start, end, include_headers=True)
    assert columns.headers is not None
    return [
        Record(Offset(offset), Millis(timestamp), key, value, tuple((h["key"], h["value"]) for h in headers or ()))
        for offset, timestamp, key, value, headers in zip(
            columns.offsets.tolist(),
            columns.timestamps_ms.tolist(),
            columns.keys.to_pylist(),
            columns.values.to_pylist(),
            columns.headers.to_pylist(),
            strict=True,
        )
    ]


def written(
    batches: list[list[Unstamped]], codec: Compression = Compression.NONE, log_append_time_ms: int | None = None
) -> bytes:
    data = b""
    offset = 0
    for records in batches:
        data += encode_batch(
            records, base_offset=Offset(offset), compression=codec, log_append_time_ms=log_append_time_ms
        )
        offset += len(records)
    return data


@settings(max_examples=60, deadline=None)
@given(st.lists(_records, min_size=1, max_size=5), st.sampled_from(Compression), st.none() | _timestamps)
def test_columns_hold_the_records_of_all_batches(
    batches: list[list[Unstamped]], codec: Compression, log_append_time_ms: int | None
) -> None:
    """Whatever the codec, the timestamp type, nulls and headers: the columns are the records."""
    data = written(batches, codec, log_append_time_ms)

    assert opened(data) == list(decode_records(data))


@pytest.mark.parametrize("size", [0, 1, 63, 64, 8191, 8192, 1_048_576, 3_000_000])
def test_values_of_every_length_are_found(size: int) -> None:
    """Lengths take one to four bytes as varints; the search for the records knows them all."""
    data = written([[(1, b"k", b"v" * size, []), (2, None, b"after", [])]])

    assert [record.value for record in opened(data)] == [b"v" * size, b"after"]


def test_only_offsets_of_the_range_are_taken() -> None:
    """The first and the last batch of a fetch reach beyond what was asked for."""
    data = written([[(0, None, b"%d" % (batch * 10 + index), []) for index in range(10)] for batch in range(3)])

    assert [record.offset for record in opened(data, 7, 12)] == [7, 8, 9, 10, 11]
    assert opened(data, 30, 40) == []


def test_without_headers_asked_for_there_is_no_such_column() -> None:
    """Headers are not even looked at, and a record that has some is read all the same."""
    data = written([[(0, b"k", b"v", [("a", None)])]])

    columns = open_batches(closed(data), 0, 1)

    assert columns.headers is None
    assert columns.values.to_pylist() == [b"v"]


def test_a_record_without_headers_has_null() -> None:
    """As in Spark's own source: null, not an empty list."""
    data = written([[(0, b"k", b"v", []), (0, b"k", b"v", [("a", b"1")])]])

    headers = open_batches(closed(data), 0, 2, include_headers=True).headers

    assert headers is not None
    assert headers.to_pylist() == [None, [{"key": "a", "value": b"1"}]]


@settings(max_examples=300, deadline=None)
@given(_records, st.data())
def test_damage_is_refused_or_harmless(records: list[Unstamped], data: st.DataObject) -> None:
    """A changed byte gives another record or a `KafkaError`, never another exception and never unbounded memory."""
    batch = bytearray(written([records]))
    position = data.draw(st.integers(min_value=HEADER_SIZE_BYTES, max_value=len(batch) - 1))
    batch[position] = data.draw(st.integers(min_value=0, max_value=255))

    try:
        rows = opened(bytes(batch))
    except KafkaError:
        return
    assert len(rows) <= len(records)


def test_a_batch_of_an_old_format_is_named() -> None:
    """Magic 0 and 1 ended with Kafka 4; who still meets them is told so."""
    (batch,) = closed(written([[(0, b"k", b"v", [])]]))
    old = ClosedBatch(batch.header._replace(magic=1), batch.data)

    with pytest.raises(KafkaError, match="magic 1"):
        open_batches([old], 0, 1)
