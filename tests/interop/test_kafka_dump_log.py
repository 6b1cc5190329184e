"""Tests that Apache Kafka's kafka-dump-log finds no error in files that klamm wrote, and reads the same content."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.log_folder import NOW_MS, LogFolder, append, batch, read_all

from klamm.core.log.transaction_verification import UNVERIFIED
from klamm.protocol.compression import Compression
from klamm.protocol.control_batch import EndTransactionMarker, encode_end_transaction_marker
from klamm.protocol.types import LeaderEpoch, Offset, ProducerEpoch, ProducerId
from klamm.storage.log.log import Log

pytestmark = [pytest.mark.java, pytest.mark.timeout(180)]

_COMPLAINTS = re.compile(
    r"mismatch|Found|corrupt|Exception|not valid|invalid|Non-consecutive|isvalid: false", re.IGNORECASE
)


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[LogFolder]:
    """A log with every codec, several leader epochs, idempotent producers, late timestamps, rolls and a restart."""
    folder = LogFolder(tmp_path / "data")
    folder.create(segment_bytes=3000, index_interval_bytes=300)
    sequence = 0
    for number in range(90):
        count = 1 + number % 4
        is_idempotent = number % 3 == 0
        late = 500 if number % 7 == 3 else 0
        records = batch(
            count,
            value=b"value %d" % number * 5,
            timestamp_ms=NOW_MS + 10 * number - late,
            compression=list(Compression)[number % 5],
            sequence=sequence if is_idempotent else -1,
            producer_id=7 if is_idempotent else -1,
            epoch=0 if is_idempotent else -1,
        )
        append(folder.log(), records, leader_epoch=number // 20)
        sequence += count if is_idempotent else 0
        if number == 40:
            folder.restart()
        if number == 60:
            folder.crash()
    yield folder
    folder.close()


def _dump(classpath: str, *arguments: str) -> str:
    command = [
        "java",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        classpath,
        "org.apache.kafka.tools.DumpLogSegments",
        *arguments,
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def _files(folder: LogFolder, *suffixes: str) -> str:
    partition = folder.path / "orders-0"
    return ",".join(str(path) for path in sorted(partition.iterdir()) if path.suffix in suffixes)


def test_kafka_reads_the_same_records(partition: LogFolder, kafka_classpath: str) -> None:
    """Every batch is valid, and every record has the offset, timestamp and value that klamm reads."""
    expected = read_all(partition.log())
    partition.directory.close()
    output = _dump(kafka_classpath, "--deep-iteration", "--print-data-log", "--files", _files(partition, ".log"))
    assert not _COMPLAINTS.search(output), output
    records = re.findall(r"\| offset: (\d+) CreateTime: (\d+) .* payload: (.*)", output)
    assert [(int(offset), int(timestamp), payload.encode()) for offset, timestamp, payload in records] == [
        (record.offset, record.timestamp_ms, record.value) for record in expected
    ]


def test_kafka_finds_the_indexes_in_order(partition: LogFolder, kafka_classpath: str) -> None:
    """kafka-dump-log finds no error in the offset indexes and time indexes."""
    partition.directory.close()
    files = _files(partition, ".index", ".timeindex")
    assert files.count(".timeindex") > 3
    for options in ((), ("--index-sanity-check",), ("--verify-index-only",)):
        output = _dump(kafka_classpath, *options, "--files", files)
        assert not _COMPLAINTS.search(output), output


def test_kafka_reads_the_producer_snapshots(partition: LogFolder, kafka_classpath: str) -> None:
    """kafka-dump-log reads the last sequence and the last offset of a producer from its snapshot."""
    log = partition.log()
    last = max(
        (entry.batches[-1].last_sequence, entry.batches[-1].last_offset)
        for producer_id, entry in log.producers.active()
        if producer_id == 7
    )
    end = log.log_end_offset
    partition.directory.close()
    output = _dump(kafka_classpath, "--files", str(partition.path / "orders-0" / f"{end:020d}.snapshot"))
    assert "producerId: 7 producerEpoch: 0" in output
    assert f"lastSequence={last[0]}" in output.replace("lastSequence: ", "lastSequence=")
    assert str(last[1]) in output


def test_kafka_agrees_after_records_were_deleted_and_cut(partition: LogFolder, kafka_classpath: str) -> None:
    """kafka-dump-log finds no error in the log and its indexes after a truncation and another append."""
    log = partition.log()
    log.truncate_to(Offset(log.log_end_offset // 2 + 1), NOW_MS)
    append(log, batch(3), leader_epoch=50)
    partition.directory.close()
    output = _dump(kafka_classpath, "--files", _files(partition, ".log", ".index", ".timeindex"))
    assert not _COMPLAINTS.search(output), output


def test_kafka_reads_what_was_aborted(tmp_path: Path, kafka_classpath: str) -> None:
    """kafka-dump-log reads the same transaction index, markers and open transaction as klamm."""
    folder = LogFolder(tmp_path / "data")
    log = folder.create()
    for turn in range(3):
        for producer_id in (1, 2):
            _in_transaction(log, batch(producer_id=producer_id, epoch=0, sequence=turn, is_transactional=True))
        for producer_id in (1, 2):
            marker = encode_end_transaction_marker(
                EndTransactionMarker(is_commit=producer_id == 2, coordinator_epoch=3),
                producer_id=ProducerId(producer_id),
                producer_epoch=ProducerEpoch(0),
                timestamp_ms=NOW_MS,
            )
            _in_transaction(log, marker, from_client=False)
    _in_transaction(log, batch(producer_id=1, epoch=0, sequence=3, is_transactional=True))
    aborted = log.aborted_transactions(Offset(0), 1_000_000)
    folder.close()
    dump = _dump(kafka_classpath, "--files", _files(folder, ".txnindex"))
    numbers = re.findall(r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", dump)
    assert [tuple(map(int, each)) for each in numbers] == [tuple(each) for each in aborted]
    dump = _dump(kafka_classpath, "--files", _files(folder, ".log"), "--print-data-log")
    assert re.findall(r"endTxnMarker: (\w+) coordinatorEpoch: (\d+)", dump) == [("ABORT", "3"), ("COMMIT", "3")] * 3
    dump = _dump(kafka_classpath, "--files", _files(folder, ".snapshot"))
    assert "coordinatorEpoch: 3 currentTxnFirstOffset: OptionalLong[12]" in dump


def _in_transaction(log: Log, records: bytes, *, from_client: bool = True) -> None:
    log.appender.append_as_leader(
        records,
        leader_epoch=LeaderEpoch(0),
        now_ms=NOW_MS,
        from_client=from_client,
        verification_guard=UNVERIFIED,
        transaction_version=1,
    )
    log.advance_high_watermark(log.log_end_offset)
