"""Tests that the record scanner reads batches of Apache Kafka, and rewrites batches as Apache Kafka does.

Kafka's side runs from its jars: its batch builder, its segment files, and the filter with which its cleaner rewrites
batches (java/BatchFilter.java).
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import ModuleType

import pytest
from tests.interop.client_process import ClientProcess
from tests.interop.java_client import driver_command
from tests.support.scanner_loops import each_loops
from tests.unit.protocol.test_record_scanner import seen
from tests.unit.spark.source.tasks.test_columns import MakeFiller, each_form, rows_of

from klamm.client.fetch import FetchedBatches
from klamm.protocol import record_scanner
from klamm.protocol.compression import Compression
from klamm.protocol.record_batch import BatchHeader, batch_crc_is_valid, iterate_batches, read_batch_header
from klamm.protocol.record_scanner import rewrite_batch, scan_records
from klamm.protocol.records import UnstampedRecord, decode_batch, decode_records, encode_batch
from klamm.protocol.types import Millis, Offset
from klamm.spark.source.tasks.tables import TableBuilder

pytestmark = pytest.mark.java

_HORIZON = Millis(1_800_000_000_000)


@pytest.fixture(scope="module")
def kafka(java_client_classpath: str) -> Iterator[ClientProcess]:
    """A JVM process that makes and filters batches."""
    client = ClientProcess(driver_command(java_client_classpath, "BatchFilter"))
    yield client
    client.close()


@pytest.fixture(autouse=True)
def _restore_loops() -> Iterator[None]:
    module = vars(record_scanner)
    imported = module["_loops"]
    yield
    module["_loops"] = imported


@each_form
def test_columns_of_a_segment_that_kafka_wrote(kafka: ClientProcess, make: MakeFiller, tmp_path: Path) -> None:
    """The columns contain every record of every batch of a segment that Kafka wrote, for every codec."""
    path = tmp_path / "00000000000000000000.log"
    count = kafka.call("write", file=str(path), seed=6)
    segment = path.read_bytes()
    assert {header.compression for _, header in iterate_batches(segment)} == set(Compression)
    filler = make(100, 1 << 16, include_headers=True)
    tables = TableBuilder(0, 2**62, include_headers=True, check_crcs=True, filler=filler)
    fetched = FetchedBatches(memoryview(segment), (), Offset(0))

    found = [row for columns in (*tables.add(fetched), *tables.finish()) for row in rows_of(columns)]

    assert found == list(decode_records(segment))
    assert len(found) == count


@each_loops
def test_reads_a_segment_that_kafka_wrote(kafka: ClientProcess, loops: ModuleType, tmp_path: Path) -> None:
    """The scanner finds every record of every batch of a segment that Kafka wrote, for every codec."""
    vars(record_scanner)["_loops"] = loops
    path = tmp_path / "00000000000000000000.log"
    count = kafka.call("write", file=str(path), seed=5)
    segment = path.read_bytes()
    found = 0
    codecs = set()
    for position, header in iterate_batches(segment):
        spans = scan_records(segment, position, header)
        assert seen(spans, header) == decode_batch(segment, position)
        found += spans.count
        codecs.add(header.compression)
    assert found == count > 500
    assert codecs == set(Compression)


def _batches(choose: Random) -> Iterator[bytes]:
    for number in range(60):
        is_marker = number % 12 == 11
        records: list[UnstampedRecord] = [
            (
                1_700_000_000_000 + choose.randrange(-10_000, 10_000),
                None if choose.random() < 0.1 else choose.randbytes(choose.randrange(30)),
                None if choose.random() < 0.2 else choose.randbytes(choose.choice([0, 5, 63, 64, 200])),
                [("header", None), ("h\u00fc", b"x")] if choose.random() < 0.2 else (),
            )
            for _ in range(choose.choice([1, 2, 5, 70, 200]))
        ]
        if is_marker:
            records = [(1_700_000_000_000, b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x07", ())]
        yield encode_batch(
            records,
            base_offset=choose.randrange(2**40),
            compression=Compression.NONE if is_marker else list(Compression)[number % 5],
            producer_id=9 if number % 2 else -1,
            producer_epoch=3 if number % 2 else -1,
            base_sequence=2**31 - 5 if number % 2 and not is_marker else -1,
            partition_leader_epoch=number,
            is_transactional=number % 4 == 3,
            is_control=is_marker,
            log_append_time_ms=1_750_000_000_000 if number % 3 == 0 and not is_marker else None,
        )


@each_loops
def test_rewrites_batches_as_kafka_does(kafka: ClientProcess, loops: ModuleType) -> None:
    """An uncompressed rewritten batch equals Kafka's byte for byte. For a compressed batch, the header fields and the
    records are equal; compressors differ.

    Each rewritten batch is rewritten a second time, because it then has a delete horizon already.
    """
    vars(record_scanner)["_loops"] = loops
    choose = Random(11)
    seen_horizons = 0
    for original in _batches(choose):
        batch = original
        for _ in range(2):
            header = read_batch_header(batch)
            is_marker = header.is_control
            weight = choose.choice([0, 0.05, 0.5, 0.95, 1])
            keep = bytes(is_marker or choose.random() < weight for _ in range(header.records_count))
            options = {
                "marks_empty_transaction": is_marker and choose.random() < 0.7,
                "retain_empty": choose.random() < 0.5,
            }
            ours = bytes(
                rewrite_batch(header, batch, scan_records(batch), keep, new_delete_horizon_ms=_HORIZON, **options)
            )
            answer = kafka.call(
                "filter",
                batch=base64.b64encode(batch).decode(),
                keep="".join(map(str, keep)),
                horizon=_HORIZON,
                **options,
            )
            theirs = base64.b64decode(answer)
            assert _comparable(ours) == _comparable(theirs), f"{header} {keep!r} {options}"
            if not ours:
                break
            seen_horizons += read_batch_header(ours).has_delete_horizon
            batch = ours
    assert seen_horizons > 20


def _comparable(batch: bytes) -> bytes | tuple[BatchHeader, bytes]:
    if not batch:
        return batch
    header = read_batch_header(batch)
    assert header.size_bytes == len(batch)
    assert batch_crc_is_valid(batch, 0, header)
    if header.compression is Compression.NONE:
        return batch
    return header._replace(batch_length=0, crc=0), bytes(scan_records(batch).body)
