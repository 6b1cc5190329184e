"""Tests a task's record batches: the right rows, sizes that suit Spark, and shared connections."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.unit.spark.source.tasks.test_columns import MakeFiller, compiled, in_numpy

from klamm.client.cluster import TopicMetadata
from klamm.client.config import ClientConfig
from klamm.client.errors import GaveUp, LogEndsEarly, OffsetOutOfRange, PartitionMissing
from klamm.client.fetch import FetchedBatches
from klamm.client.list_offsets import EARLIEST, ListedOffset
from klamm.protocol.errors import KafkaError
from klamm.protocol.record_batch import iterate_batches
from klamm.protocol.records import encode_batch
from klamm.protocol.types import LeaderEpoch, Millis, Offset, PartitionIndex, TopicId, TopicPartition
from klamm.spark.source.errors import DataLoss, LossPolicy
from klamm.spark.source.planning.planner import OffsetRange
from klamm.spark.source.tasks import partition_reader, tables
from klamm.spark.source.tasks.arrow_schema import arrow_schema
from klamm.spark.source.tasks.partition_reader import read_range, shared_cluster

CONFIG = ClientConfig((("127.0.0.1", 1),))
ZERO = TopicPartition("t", PartitionIndex(0))


class FakeLog:
    """Replaces the client with the batches of one partition."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *batches: bytes, start: int = 0) -> None:
        self.batches = [
            (header, memoryview(batch)) for batch in batches for _, header in iterate_batches(memoryview(batch))
        ]
        self.start = start
        self.end: Offset | None = None
        self.failure: Exception | None = None
        self.refusals = 0
        monkeypatch.setattr(partition_reader, "stream_batches", self.stream)
        monkeypatch.setattr(partition_reader, "list_offsets", self.list)

    def stream(self, cluster: object, asked: TopicPartition, start: Offset, end: Offset) -> Iterator[FetchedBatches]:
        self.refusals -= 1
        if start < self.start or self.refusals >= 0:
            raise OffsetOutOfRange(asked, start)
        for header, data in self.batches:
            if header.next_offset > start and header.base_offset < end:
                yield FetchedBatches(data, (), header.next_offset)
        if self.failure is not None:
            raise self.failure

    def list(
        self, cluster: object, wanted: dict[TopicPartition, Millis], *, isolation_level: str | None = None
    ) -> dict[TopicPartition, ListedOffset]:
        end = self.end or self.batches[-1][0].next_offset
        return {
            asked: ListedOffset(Offset(self.start) if when == EARLIEST else end, Millis(-1), LeaderEpoch(0))
            for asked, when in wanted.items()
        }


def batch(offset: int, count: int, size: int = 1) -> bytes:
    return encode_batch([(index, None, b"v" * size, ()) for index in range(count)], base_offset=offset)


def read(start: int, end: int, *, fail: bool = True, config: ClientConfig = CONFIG) -> list[pa.RecordBatch]:
    offsets = OffsetRange(ZERO, Offset(start), Offset(end))
    return list(read_range(config, offsets, LossPolicy(fail=fail), include_headers=False))


def offsets_in(batches: list[pa.RecordBatch]) -> list[int]:
    return [offset for one in batches for offset in one.column("offset").to_pylist()]


def test_all_columns_are_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    """All columns are filled; topic and partition are the same in every row."""
    FakeLog(monkeypatch, batch(0, 3))

    (rows,) = read(1, 3)

    assert rows.schema.equals(arrow_schema(include_headers=False))
    assert rows.column("topic").to_pylist() == ["t", "t"]
    assert rows.column("partition").to_pylist() == [0, 0]
    assert [stamp.timestamp() for stamp in rows.column("timestamp").to_pylist()] == [0.001, 0.002]


def test_small_batches_are_gathered_and_large_ones_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small batches are gathered and large ones are split, to tables of 20,000 rows."""
    FakeLog(monkeypatch, *(batch(offset, 1000) for offset in range(0, 45_000, 1000)), batch(45_000, 120_000))

    batches = read(0, 165_000)

    assert [len(one) for one in batches] == [20_000] * 8 + [5_000]
    assert offsets_in(batches) == list(range(165_000))


def test_large_records_fill_a_batch_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are limited by bytes as well as by rows."""
    FakeLog(monkeypatch, *(batch(offset, 1, 5_000_000) for offset in range(4)))

    assert [len(one) for one in read(0, 4)] == [1, 1, 1, 1]


def test_a_start_that_is_gone_fails_or_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start before the log start offset fails the read, or is skipped; the log may begin within a batch."""
    FakeLog(monkeypatch, batch(0, 10), start=4)

    with pytest.raises(DataLoss, match=r"range \[2, 10\) for partition t-0: the log has \[4, 10\)"):
        read(2, 10)
    assert offsets_in(read(2, 10, fail=False)) == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("failure", [LogEndsEarly("it ends early"), PartitionMissing("it is gone")])
def test_an_end_that_never_comes_fails_or_is_let_go(monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    """An end that the log never reaches fails the read, or the rows read so far are kept."""
    log = FakeLog(monkeypatch, batch(0, 5))
    log.failure = failure

    with pytest.raises(DataLoss, match=str(failure)):
        read(0, 10)
    assert offsets_in(read(0, 10, fail=False)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("fail", [True, False])
def test_records_that_are_there_are_never_given_up_as_lost(monkeypatch: pytest.MonkeyPatch, fail: bool) -> None:
    """Records that the log still has are never skipped as lost: a leader that returns none for long (its followers
    may be away) causes an error, as in Spark."""
    log = FakeLog(monkeypatch, batch(0, 5))
    log.failure, log.end = LogEndsEarly("no more came"), Offset(10)

    with pytest.raises(GaveUp, match=r"t-0 brought nothing from offset 5 on.*the log has offsets up to 10"):
        read(0, 10, fail=fail)


def test_clients_are_shared_within_a_process() -> None:
    """A process shares one client for each configuration."""
    assert shared_cluster(CONFIG) is shared_cluster(ClientConfig((("127.0.0.1", 1),)))
    assert shared_cluster(CONFIG) is not shared_cluster(ClientConfig((("127.0.0.1", 2),)))


def test_a_damaged_batch_is_named_with_its_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error for a damaged batch names the partition, so that a reader of Spark's log can find the batch."""
    damaged = bytearray(batch(0, 5))
    damaged[-1] ^= 1
    FakeLog(monkeypatch, bytes(damaged))

    with pytest.raises(KafkaError, match="CORRUPT_MESSAGE: t-0: the CRC of the batch at offset 0"):
        read(0, 5)


@pytest.mark.parametrize("make", [compiled, in_numpy])
def test_a_time_that_spark_can_not_hold_is_named_with_its_partition(
    monkeypatch: pytest.MonkeyPatch, make: MakeFiller
) -> None:
    """Both forms of the filler report a timestamp that Spark can't hold with its partition; nanoseconds are the usual
    cause."""
    monkeypatch.setattr(tables, "column_filler", make)
    nanoseconds = 1_700_000_000_000_000_000
    records = [(1_700_000_000_000 if index < 3 else nanoseconds, None, b"v", ()) for index in range(5)]
    FakeLog(monkeypatch, encode_batch(records, base_offset=10))

    assert offsets_in(read(10, 13)) == [10, 11, 12]
    words = f"INVALID_RECORD: t-0: the record at offset 13 has the timestamp {nanoseconds}"
    with pytest.raises(KafkaError, match=words):
        read(10, 15)


class KnownTopic:
    """A cluster with one topic, whose cached id changes with each refresh."""

    config = ClientConfig((("127.0.0.1", 1),), retry_backoff_ms=0)

    def __init__(self, *ids: bytes) -> None:
        self.ids = [TopicId(each * 16) for each in ids]

    def ensure(self, topics: set[str]) -> None: ...

    def turn(self) -> None: ...

    def refresh(self, topics: set[str]) -> None:
        del self.ids[0]

    def topic(self, name: str) -> TopicMetadata:
        return TopicMetadata(name, self.ids[0], ())

    def epoch_of(self, topic_partition: TopicPartition) -> LeaderEpoch:
        return LeaderEpoch(-1)

    def expect_epoch(self, topic_partition: TopicPartition, epoch: LeaderEpoch) -> None: ...


def rows_of_planned_topic(monkeypatch: pytest.MonkeyPatch, known: KnownTopic, *, fail: bool = True) -> list[int]:
    monkeypatch.setattr(partition_reader, "shared_cluster", lambda config: known)
    planned = OffsetRange(ZERO, Offset(0), Offset(4), TopicId(b"n" * 16))
    return offsets_in(list(read_range(CONFIG, planned, LossPolicy(fail=fail), include_headers=False)))


def test_another_topic_of_the_same_name_is_not_read_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that was recreated after planning is not read. Metadata older than the plan are refreshed before that
    decision, four times, because not all brokers know a new topic at once; the next ranges need one refresh."""
    FakeLog(monkeypatch, batch(0, 4))

    assert rows_of_planned_topic(monkeypatch, KnownTopic(b"n")) == [0, 1, 2, 3]
    assert rows_of_planned_topic(monkeypatch, KnownTopic(b"o", b"n")) == [0, 1, 2, 3]
    assert rows_of_planned_topic(monkeypatch, KnownTopic(b"o", b"o", b"o", b"o", b"n")) == [0, 1, 2, 3]
    with pytest.raises(DataLoss, match=r"topic t was deleted and created again.*range \[0, 4\) of partition t-0 are"):
        rows_of_planned_topic(monkeypatch, KnownTopic(b"o", b"x", b"x", b"x", b"x"))
    assert rows_of_planned_topic(monkeypatch, KnownTopic(b"o", b"x"), fail=False) == []


def test_a_read_ends_where_the_topic_was_recreated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that is recreated during the read is not read further. If a broker still told the old id, the read goes
    on."""
    log = FakeLog(monkeypatch, batch(0, 2), batch(2, 2))
    stream = log.stream

    def read_and_then(known: KnownTopic, *, fail: bool = True) -> list[int]:
        def refreshed_after_two_records(*given: object) -> Iterator[FetchedBatches]:
            for fetched in stream(*given):  # type: ignore[arg-type]
                if fetched.next_offset == 4 and len(known.ids) > 1:
                    known.refresh(set())
                yield fetched

        monkeypatch.setattr(partition_reader, "stream_batches", refreshed_after_two_records)
        return rows_of_planned_topic(monkeypatch, known, fail=fail)

    assert read_and_then(KnownTopic(b"n", b"y", b"y", b"y", b"y", b"y"), fail=False) == [0, 1]
    with pytest.raises(DataLoss, match=r"range \[2, 4\)"):
        read_and_then(KnownTopic(b"n", b"y", b"y"))
    assert read_and_then(KnownTopic(b"n", b"o", b"n")) == [0, 1, 2, 3]
