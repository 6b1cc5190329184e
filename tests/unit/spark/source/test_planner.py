"""Ranges of offsets, and what counts as loss, by Spark's rules."""

from __future__ import annotations

import logging
from collections.abc import Collection

import pytest

from klamm.protocol.types import Offset, PartitionIndex, TopicPartition
from klamm.spark.source.errors import DataLoss, LossPolicy, OptionError
from klamm.spark.source.offsets import PartitionOffsets
from klamm.spark.source.planner import OffsetRange, Planner


def tp(partition: int) -> TopicPartition:
    return TopicPartition("t", PartitionIndex(partition))


def offsets(*ends: int) -> PartitionOffsets:
    return {tp(index): Offset(end) for index, end in enumerate(ends)}


class FakeLog:
    """Partitions of one topic, from a start to an end; what is asked for is counted."""

    def __init__(self, ends: list[int], starts: list[int] | None = None) -> None:
        self.ends = offsets(*ends)
        self.starts = offsets(*(starts or [0] * len(ends)))
        self.answers: list[PartitionOffsets] = []

    def latest(self) -> PartitionOffsets:
        return self.answers.pop(0) if self.answers else dict(self.ends)

    def earliest(self, topic_partitions: Collection[TopicPartition]) -> PartitionOffsets:
        return {key: self.starts[key] for key in topic_partitions if key in self.starts}

    def missing(self) -> Collection[str]:
        return () if self.ends else ("t",)


def planner(log: FakeLog, *, fail: bool = True) -> Planner:
    return Planner(log, LossPolicy(fail=fail), lambda seconds: None)


def test_words_stand_for_the_ends_of_the_log() -> None:
    """Earliest is the log start offset, which need not be 0."""
    log = FakeLog([10, 20], [3, 0])

    assert planner(log).resolve("startingOffsets", "earliest") == offsets(3, 0)
    assert planner(log).resolve("startingOffsets", "latest") == offsets(10, 20)


def test_numbers_and_words_can_be_mixed_by_partition() -> None:
    """-1 and -2 are resolved, a number is taken as it is."""
    log = FakeLog([10, 20, 30], [3, 4, 5])

    assert planner(log).resolve("startingOffsets", offsets(7, -1, -2)) == offsets(7, 20, 5)


def test_specific_offsets_must_name_all_partitions() -> None:
    """As in Spark: a forgotten partition is an error, not a default."""
    with pytest.raises(OptionError, match="must specify all TopicPartitions"):
        planner(FakeLog([10, 20])).resolve("startingOffsets", offsets(5))


def test_a_missing_topic_fails_the_query_or_is_waited_for() -> None:
    """What `failOnDataLoss` says."""
    with pytest.raises(DataLoss, match="t: no such topic or partition"):
        planner(FakeLog([])).resolve("startingOffsets", "earliest")
    assert planner(FakeLog([]), fail=False).resolve("startingOffsets", "earliest") == {}


def test_a_batch_reads_what_lies_between() -> None:
    """Partitions with nothing between make no task."""
    log = FakeLog([10, 20], [3, 20])

    assert planner(log).batch_ranges("earliest", "latest") == [OffsetRange(tp(0), Offset(3), Offset(10))]


def test_a_micro_batch_reads_what_lies_between() -> None:
    """In the order of the partitions."""
    ranges = planner(FakeLog([10, 20])).stream_ranges(offsets(1, 2), offsets(5, 2))

    assert ranges == [OffsetRange(tp(0), Offset(1), Offset(5))]


def test_a_new_partition_is_read_from_its_start() -> None:
    """It appears in the end of the micro-batch only."""
    ranges = planner(FakeLog([10, 20])).stream_ranges(offsets(1), offsets(1, 4))

    assert ranges == [OffsetRange(tp(1), Offset(0), Offset(4))]


@pytest.mark.parametrize(
    ("log", "start", "end", "message"),
    [
        (FakeLog([10, 20], [0, 5]), offsets(1), offsets(1, 9), "starts from 5 instead of 0"),
        (FakeLog([10]), offsets(1), offsets(1, 9), "Cannot find earliest offsets of {t-1}"),
        (FakeLog([10]), offsets(1, 1), offsets(5), "{t-1} are gone"),
        (FakeLog([10]), offsets(8), offsets(5), "changed from 8 to 5"),
    ],
)
def test_loss_fails_the_query_or_is_warned_of(
    log: FakeLog, start: PartitionOffsets, end: PartitionOffsets, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    """With the texts of Spark's own source; a query that goes on reads what there is."""
    with pytest.raises(DataLoss, match=message.replace("{", r"\{")):
        planner(log).stream_ranges(start, end)

    with caplog.at_level(logging.WARNING, "klamm.spark"):
        ranges = planner(log, fail=False).stream_ranges(start, end)
    assert message in caplog.text
    assert all(one.start < one.end for one in ranges)


def test_an_end_before_the_query_is_asked_for_again() -> None:
    """A leader that was just elected may not know yet how far its log is committed (KIP-207 covers most of it)."""
    log = FakeLog([10])
    log.answers = [offsets(4), offsets(4)]

    assert planner(log).latest_since(offsets(8)) == offsets(10)


def test_an_end_that_stays_before_the_query_is_believed() -> None:
    """Then the topic was made anew, and planning reports the loss."""
    assert planner(FakeLog([4])).latest_since(offsets(8)) == offsets(4)
