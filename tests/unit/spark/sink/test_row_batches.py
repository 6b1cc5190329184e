"""Tests that rows become batches of the right partitions: by the row's partition, by its key, or by batch size."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from klamm.client.producer.errors import RecordTooLarge
from klamm.protocol.batch_building import BuiltBatch
from klamm.protocol.records import decode_batch
from klamm.spark.sink.row_batches import RowBatches
from klamm.spark.sink.sink_options import SinkOptions
from klamm.spark.sink.topic_rows import TopicRows

PARTITIONS = 4


def _options(**more: str) -> SinkOptions:
    return SinkOptions.parse(
        {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t", **{k.replace("_", "."): v for k, v in more.items()}}
    )


def _rows(values: list[bytes | None], keys: list[bytes | None] | None = None, **columns: Any) -> TopicRows:
    return TopicRows(
        topic="t",
        values=pa.array(values, pa.binary()),
        keys=None if keys is None else pa.array(keys, pa.binary()),
        headers=None,
        partitions=pa.array(columns["partitions"], pa.int32()) if "partitions" in columns else None,
    )


def _values(batches: list[BuiltBatch]) -> dict[int, list[bytes | None]]:
    found: dict[int, list[bytes | None]] = {}
    for batch in batches:
        found.setdefault(batch.partition, []).extend(record.value for record in decode_batch(batch.data))
    return found


def test_a_named_partition_comes_before_the_key() -> None:
    """A row's own partition takes precedence over its key; other rows get the partition that Java's producer chooses
    for the key."""
    rows = _rows([b"1", b"2", b"3"], [b"foobar", b"foobar", b"foobar"], partitions=[0, None, 3])
    by_key = (-790332482 & 0x7FFFFFFF) % PARTITIONS
    found = _values(list(RowBatches(_options()).build(rows, PARTITIONS)))
    assert found == {0: [b"1"], by_key: [b"2"], 3: [b"3"]} if by_key not in (0, 3) else Counter(found)


@pytest.mark.parametrize("codec", ["none", "zstd", "lz4"])
def test_no_batch_is_larger_than_a_request(codec: str) -> None:
    """Also if `batch.size` is larger, and where compression makes random bytes longer."""
    options = _options(kafka_batch_size="2000000", kafka_max_request_size="100000", kafka_compression_type=codec)
    values = [os.urandom(997) for _ in range(2000)]
    batches = list(RowBatches(options).build(_rows(list(values)), PARTITIONS))
    assert max(len(batch.data) for batch in batches) <= 100_000
    assert sum(map(len, _values(batches).values())) == 2000


def test_rows_without_a_key_fill_a_batch_before_the_next_partition() -> None:
    """Rows without a key fill a whole batch before the next partition's turn, also across the tables of a task."""
    build = RowBatches(_options(kafka_batch_size="1000"))
    counts: Counter[int] = Counter()
    order: list[int] = []
    for _ in range(8):
        for partition, values in _values(list(build.build(_rows([b"x" * 100] * 50), PARTITIONS))).items():
            counts[partition] += len(values)
            order.append(partition)
    assert counts == dict.fromkeys(range(PARTITIONS), 100)
    whole = _values(list(build.build(_rows([b"x" * 100] * 10), PARTITIONS)))
    assert len(whole) == 1, "ten rows of a hundred bytes are one batch"


def test_a_partitioner_that_ignores_keys_distributes_all_rows() -> None:
    """With Java's option `partitioner.ignore.keys`, rows with equal keys are spread over all partitions."""
    rows = _rows([b"x" * 100] * 100, [b"same"] * 100)
    build = RowBatches(_options(kafka_batch_size="1000", **{"kafka_partitioner_ignore_keys": "true"}))
    assert len(_values(list(build.build(rows, PARTITIONS)))) == PARTITIONS


def test_a_slice_of_a_table_is_built_as_the_rows_that_it_has() -> None:
    """A slice of a table gives only the rows of the slice; Spark's tables and tables of one topic can be slices."""
    values = pa.array([b"%d" % number for number in range(100)], pa.binary())
    rows = TopicRows("t", values[40:60], values[40:60], None, None)
    found = _values(list(RowBatches(_options()).build(rows, PARTITIONS)))
    assert sorted(value or b"" for each in found.values() for value in each) == [b"%d" % n for n in range(40, 60)]


def test_a_record_larger_than_a_request_is_refused() -> None:
    """A record larger than a request is refused with an error that names the limit, as for single records of the
    producer."""
    rows = _rows([b"small", b"x" * 3000])
    with pytest.raises(
        RecordTooLarge, match=r"a record for topic t has 30\d\d bytes in a batch, more than max\.request\.size=2000"
    ):
        list(RowBatches(_options(kafka_max_request_size="2000")).build(rows, PARTITIONS))
