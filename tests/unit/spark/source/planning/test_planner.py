"""Tests the planning of offset ranges, and which cases count as data loss by Spark's rules."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Collection, Mapping

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, LessThan

from klamm.protocol.types import LeaderEpoch, Millis, Offset, PartitionIndex, TopicId, TopicPartition
from klamm.spark.source.errors import DataLoss, LossPolicy, MissingTopic, OptionError
from klamm.spark.source.offsets import PartitionOffsets
from klamm.spark.source.options.options import OffsetRetries
from klamm.spark.source.options.positions import AtTimestamp, AtTimestamps, OffsetLimit
from klamm.spark.source.options.read_limits import Division
from klamm.spark.source.planning.planner import OffsetRange, Planner
from klamm.spark.source.planning.pushed_filters import Restriction


def tp(partition: int) -> TopicPartition:
    return TopicPartition("t", PartitionIndex(partition))


def offsets(*ends: int) -> PartitionOffsets:
    return {tp(index): Offset(end) for index, end in enumerate(ends)}


class FakeLog:
    """The partitions of one topic, with a start and an end each, and with prepared answers."""

    def __init__(self, ends: list[int], starts: list[int] | None = None) -> None:
        self.ends = offsets(*ends)
        self.starts = offsets(*(starts or [0] * len(ends)))
        self.answers: list[PartitionOffsets] = []
        self.misses: list[tuple[str | TopicPartition, ...]] = []
        self.ids: dict[str, TopicId] = {}
        self.epochs: dict[TopicPartition, LeaderEpoch] = {}
        self.anew: list[str] = []
        self.last_ends: PartitionOffsets = {}

    def latest(self) -> PartitionOffsets:
        return self.answers.pop(0) if self.answers else dict(self.ends)

    def doubt(self) -> None: ...

    def earliest(self, topic_partitions: Collection[TopicPartition]) -> PartitionOffsets:
        return {key: self.starts[key] for key in topic_partitions if key in self.starts}

    def last(self, topic_partitions: Collection[TopicPartition]) -> PartitionOffsets:
        return {key: self.last_ends[key] for key in topic_partitions if key in self.last_ends}

    def missing(self) -> Collection[str | TopicPartition]:
        if self.misses:
            return self.misses.pop(0)
        return () if self.ends else ("t",)

    def at(self, timestamps_ms: Mapping[TopicPartition, Millis]) -> PartitionOffsets:
        """Returns offsets by time: offset n has the timestamp 100 * n."""
        return {
            key: Offset(-1 if timestamp_ms > 100 * (self.ends[key] - 1) else -(-timestamp_ms // 100))
            for key, timestamp_ms in timestamps_ms.items()
        }

    def know(self, topics: Collection[str]) -> None: ...

    def topic_id(self, topic: str) -> TopicId | None:
        return self.ids.get(topic)

    def leader_epoch(self, topic_partition: TopicPartition) -> LeaderEpoch:
        return self.epochs.get(topic_partition, LeaderEpoch(-1))

    def made_anew(self) -> Collection[str]:
        return self.anew


def planner(log: FakeLog, *, fail: bool = True) -> Planner:
    return Planner(log, LossPolicy(fail=fail), lambda seconds: None)


def test_words_stand_for_the_ends_of_the_log() -> None:
    """`earliest` is the log start offset, which can be above 0, and `latest` is the end of the log."""
    log = FakeLog([10, 20], [3, 0])

    assert planner(log).resolve("startingOffsets", "earliest") == offsets(3, 0)
    assert planner(log).resolve("startingOffsets", "latest") == offsets(10, 20)


def test_numbers_and_words_can_be_mixed_by_partition() -> None:
    """-1 and -2 are resolved by partition, and a plain number is used unchanged."""
    log = FakeLog([10, 20, 30], [3, 4, 5])

    assert planner(log).resolve("startingOffsets", offsets(7, -1, -2)) == offsets(7, 20, 5)


def test_specific_offsets_must_name_all_partitions() -> None:
    """Offsets must name all partitions, as in Spark: a missing partition is an error, not a default."""
    with pytest.raises(OptionError, match="must specify all TopicPartitions"):
        planner(FakeLog([10, 20])).resolve("startingOffsets", offsets(5))


def test_a_missing_topic_fails_the_query_or_is_waited_for() -> None:
    """A missing topic fails the query, or with `failOnDataLoss=false` the query waits for the topic."""
    with pytest.raises(MissingTopic, match="t: no such topic or partition"):
        planner(FakeLog([])).resolve("startingOffsets", "earliest")
    assert planner(FakeLog([]), fail=False).resolve("startingOffsets", "earliest") == {}


def test_a_batch_reads_what_lies_between() -> None:
    """A batch read plans a task only for partitions with records in the range."""
    log = FakeLog([10, 20], [3, 20])

    assert planner(log).batch_ranges("earliest", "latest") == [OffsetRange(tp(0), Offset(3), Offset(10))]


def test_a_micro_batch_reads_what_lies_between() -> None:
    """A micro-batch plans a task only for partitions with records between its start and its end."""
    ranges = planner(FakeLog([10, 20])).stream_ranges(offsets(1, 2), offsets(5, 2))

    assert ranges == [OffsetRange(tp(0), Offset(1), Offset(5))]


def test_a_new_partition_is_read_from_its_start() -> None:
    """A new partition, which is only in the end of the micro-batch, is read from its start."""
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
    """Data loss fails the query with the texts of Spark's source, or causes a warning, and the query reads what is
    left."""
    with pytest.raises(DataLoss, match=message.replace("{", r"\{")):
        planner(log).stream_ranges(start, end)

    with caplog.at_level(logging.WARNING, "klamm.spark"):
        ranges = planner(log, fail=False).stream_ranges(start, end)
    assert message in caplog.text
    assert all(one.start < one.end for one in ranges)


def test_an_end_before_the_query_is_asked_for_again() -> None:
    """An end before the query's position is requested again: a newly elected leader may not know its high watermark
    yet (KIP-207 covers most of these cases)."""
    log = FakeLog([10])
    log.answers = [offsets(4), offsets(4)]

    assert planner(log).latest_since(offsets(8)) == offsets(10)


def test_a_partition_that_is_missing_for_a_moment_is_asked_for_again() -> None:
    """A missing partition is requested again, since a broker may not know the partition yet. Otherwise, with
    `failOnDataLoss=false`, the query would lose its position and read the partition from the start."""
    log = FakeLog([10, 20])
    log.answers = [offsets(10), {}]

    assert planner(log).latest_since(offsets(8, 8)) == offsets(10, 20)


def test_a_partition_that_stays_away_is_believed_to_be_gone() -> None:
    """A partition that stays away is reported as lost by planning; a partition that the query never read is not
    waited for."""
    pauses = list[float]()
    patient = Planner(FakeLog([10]), LossPolicy(fail=True), pauses.append)

    assert patient.latest_since(offsets(8, 8)) == offsets(10)
    assert pauses == [1.0, 1.0]
    assert patient.latest_since(offsets(8)) == offsets(10)
    assert len(pauses) == 2


def test_the_end_of_a_query_that_ends_is_not_that_of_half_its_topics() -> None:
    """Trigger.AvailableNow asks for the end once, so a topic that is missing for a moment is requested again."""
    log = FakeLog([10])
    log.answers, log.misses = [{}, {}], [("t",), ("t",)]

    assert planner(log).settled() == offsets(10)


def test_an_end_that_stays_before_the_query_is_believed() -> None:
    """An end that stays before the query's position is accepted; the topic was recreated, and planning reports the
    loss."""
    assert planner(FakeLog([4])).latest_since(offsets(8)) == offsets(4)


def test_a_time_is_the_first_record_of_that_time_or_later() -> None:
    """A timestamp resolves to the first record of that time or later, with one timestamp for all partitions or one
    for each."""
    log = FakeLog([10, 20])

    assert planner(log).resolve("startingOffsets", AtTimestamp(Millis(250), latest_if_none=False)) == offsets(3, 3)
    by_partition = AtTimestamps({tp(0): Millis(0), tp(1): Millis(1900)}, latest_if_none=False)
    assert planner(log).resolve("startingOffsets", by_partition) == offsets(0, 19)


def test_a_time_without_a_record_is_an_error_or_latest() -> None:
    """A timestamp after the last record is an error or means latest, by `startingOffsetsByTimestampStrategy`."""
    log = FakeLog([10, 20])

    with pytest.raises(OptionError, match="No offset matched from request of topic-partition t-0 and timestamp 950"):
        planner(log).resolve("startingOffsets", AtTimestamp(Millis(950), latest_if_none=False))
    assert planner(log).resolve("startingOffsets", AtTimestamp(Millis(950), latest_if_none=True)) == offsets(10, 10)


def test_times_must_name_all_partitions() -> None:
    """Timestamps by partition must name all partitions, as offsets must."""
    with pytest.raises(OptionError, match=r"timestamp based.*Specified: {t-1} Assigned: {t-0, t-1}"):
        planner(FakeLog([1, 1])).resolve("startingOffsets", AtTimestamps({tp(1): Millis(0)}, latest_if_none=True))


@pytest.mark.parametrize(
    ("starting", "ending"),
    [
        (offsets(7), AtTimestamp(Millis(200), latest_if_none=True)),
        (AtTimestamp(Millis(700), latest_if_none=False), offsets(2)),
        (offsets(70), AtTimestamp(Millis(99_999), latest_if_none=True)),
    ],
)
def test_a_start_after_the_end_is_refused(starting: OffsetLimit, ending: OffsetLimit) -> None:
    """A start after the end is refused regardless of `failOnDataLoss`, since no data is lost."""
    with pytest.raises(OptionError, match=r"resolved start offset 7.* is greater than the resolved end offset"):
        planner(FakeLog([10]), fail=False).batch_ranges(starting, ending)


def test_partitions_are_divided_among_tasks() -> None:
    """Partitions are divided among tasks, both for a batch and for a micro-batch."""
    divided = Planner(FakeLog([10]), LossPolicy(fail=True), lambda seconds: None, division=Division(max_records=5))
    halves = [OffsetRange(tp(0), Offset(0), Offset(5)), OffsetRange(tp(0), Offset(5), Offset(10))]

    assert divided.batch_ranges("earliest", "latest") == halves
    assert divided.stream_ranges(offsets(0), offsets(10)) == halves


@pytest.mark.parametrize(
    ("starting", "missing", "filters", "loss"),
    [
        (offsets(0, 8), (), [EqualTo(("partition",), 0)], "changed from 8 to 5"),
        (offsets(0, 8), (), [LessThan(("offset",), 8)], "changed from 8 to 5"),
        ("earliest", ("u",), [EqualTo(("topic",), "t")], "u: no such topic"),
        ("earliest", (tp(7), "u"), [LessThan(("offset",), 0)], "t-7, u: no such topic or partition"),
        ("earliest", (tp(7),), [LessThan(("partition",), 7)], "t-7: no such topic or partition"),
    ],
)
def test_what_a_filter_leaves_out_is_not_missed(
    starting: OffsetLimit, missing: tuple[str | TopicPartition, ...], filters: list[Filter], loss: str
) -> None:
    """A partition or topic that a filter excludes is not reported as lost; any other one is."""

    def read(*filters: Filter) -> list[OffsetRange]:
        log, restriction = FakeLog([10, 5]), Restriction()
        log.misses = [missing] * 20
        assert list(restriction.add(filters)) == []
        filtered = Planner(log, LossPolicy(fail=True), lambda seconds: None, restriction=restriction)
        return filtered.batch_ranges(starting, "latest")

    wanted = [OffsetRange(tp(0), Offset(0), Offset(10)), OffsetRange(tp(1), Offset(0), Offset(5))]
    expected = Restriction()
    list(expected.add(filters))
    assert read(*filters) == expected.apply(wanted[:1] if isinstance(starting, dict) else wanted, lambda times: {}, {})
    with pytest.raises((DataLoss, MissingTopic), match=loss):
        read()
    with pytest.raises((DataLoss, MissingTopic), match=loss):
        read(LessThan(("partition",), 8), LessThan(("offset",), 100))


def test_an_end_beyond_the_log_stays_whatever_the_filter_says_of_times() -> None:
    """A given end beyond the log is read up to that end, also if no record there has the time of a filter yet."""
    restriction = Restriction()
    list(restriction.add([GreaterThan(("timestamp",), dt.datetime(2020, 1, 1, tzinfo=dt.UTC))]))
    filtered = Planner(FakeLog([10, 5]), LossPolicy(fail=True), lambda seconds: None, restriction=restriction)

    assert filtered.batch_ranges("earliest", offsets(10, 8)) == [OffsetRange(tp(1), Offset(5), Offset(8))]
    assert filtered.batch_ranges("earliest", "latest") == []


def test_a_topic_made_anew_is_a_loss(caplog: pytest.LogCaptureFixture) -> None:
    """A recreated topic is a loss even if its log is as long as before, since its id differs. A query that continues
    reads it from the start."""
    log = FakeLog([10], [1])
    log.anew = ["t"]
    failing, going_on = planner(log), planner(log, fail=False)

    assert failing.back_to_start(offsets(5), offsets(10)) == offsets(1)
    with pytest.raises(DataLoss, match="topic t was deleted and created again"):
        failing.stream_ranges(offsets(5), offsets(1))

    assert going_on.back_to_start(offsets(5), offsets(10)) == offsets(1)
    with caplog.at_level(logging.WARNING, "klamm.spark"):
        assert going_on.stream_ranges(offsets(5), offsets(1)) == []
    assert "created again" in caplog.text
    log.anew = []
    assert going_on.back_to_start(offsets(1), offsets(4)) == offsets(4)
    assert going_on.back_to_start(offsets(4), offsets(10)) == offsets(10)


def test_a_restart_finds_a_topic_made_anew_in_the_checkpoint() -> None:
    """After a restart, the query does not know the old topic id, but an end before its start is still a loss."""
    with pytest.raises(DataLoss, match=r"changed from 5 to 1.*deleted and re-created"):
        planner(FakeLog([10], [1])).stream_ranges(offsets(5), offsets(1))


def test_a_topic_that_is_not_there_fails_the_query_before_its_end_is_written_down() -> None:
    """A missing topic fails the query before its end is written to the checkpoint, so that a mistyped name can be
    corrected."""
    log = FakeLog([])

    with pytest.raises(MissingTopic, match="t: no such topic or partition"):
        planner(log).require({}, {})
    with pytest.raises(DataLoss, match=r"{t-0} are gone"):
        planner(log).require(offsets(5), {})
    with pytest.raises(DataLoss, match=r"{t-1} are gone"):
        planner(FakeLog([5])).require(offsets(5, 5), offsets(5))


def test_a_topic_that_is_waited_for_keeps_its_place(caplog: pytest.LogCaptureFixture) -> None:
    """With `failOnDataLoss=false`, a query keeps its position in a missing topic. The loss is reported once, and the
    topic is requested once at each trigger."""
    log, pauses = FakeLog([]), list[float]()
    patient = Planner(log, LossPolicy(fail=False), pauses.append)

    with caplog.at_level(logging.WARNING, "klamm.spark"):
        for _ in range(3):
            assert patient.require(offsets(5), patient.latest_since(offsets(5))) == offsets(5)
    assert len(pauses) == 2
    assert caplog.text.count("{t-0} are gone") == 1
    assert "no such topic" not in caplog.text

    log.ends = offsets(8)
    assert patient.require(offsets(5), patient.latest_since(offsets(5))) == offsets(8)


def test_an_open_transaction_is_no_loss() -> None:
    """An open transaction is no loss: a query that switched to read_committed may be past the last stable offset and
    stays there."""
    log = FakeLog([4, 4])
    log.last_ends = offsets(10, 6)

    assert planner(log).latest_since(offsets(8, 8)) == offsets(8, 4)


def test_a_task_knows_the_topic_it_was_planned_for() -> None:
    """A planned range carries the topic id, so that its task does not read another topic of the same name."""
    log = FakeLog([10])
    log.ids = {"t": TopicId(b"1" * 16)}

    (planned,) = planner(log).batch_ranges("earliest", "latest")

    assert planned.topic_id == b"1" * 16


def test_the_end_is_asked_for_as_often_as_the_options_say() -> None:
    """The end is requested as often as `fetchOffset.numRetries` and `fetchOffset.retryIntervalMs` say."""
    log, pauses = FakeLog([10]), list[float]()
    log.answers = [offsets(4)] * 9
    patient = Planner(log, LossPolicy(fail=True), pauses.append, retries=OffsetRetries(attempts=5, interval_ms=20))

    assert patient.latest_since(offsets(8)) == offsets(4)
    assert pauses == [0.02] * 4


def test_what_is_not_before_the_query_is_not_asked_for_again() -> None:
    """Trigger.AvailableNow ends at the end of the log when it began. A target that is not before the query's position
    is not requested again."""
    log = FakeLog([20, 20])
    log.answers = [offsets(20, 20)]

    assert planner(log).not_before(offsets(8), offsets(9, 4)) == offsets(9, 4)
    assert len(log.answers) == 1


def test_of_a_target_only_what_is_before_the_query_is_asked_for_again() -> None:
    """Only the partitions whose target is before the query's position, or missing, are requested again."""
    log = FakeLog([20, 20, 20])
    log.answers = [offsets(9, 4)]

    assert planner(log).not_before(offsets(8, 8, 8), offsets(9, 4)) == offsets(9, 20, 20)


def test_a_target_that_stays_before_the_query_is_believed() -> None:
    """A target that stays before the query's position is accepted, and planning reports the loss, as for a lost
    partition."""
    assert planner(FakeLog([5])).not_before(offsets(8, 8), offsets(4)) == offsets(5)


def test_ranges_name_the_leader_epochs_of_the_plan() -> None:
    """A range has the leader epoch that the planner knew, so that no task reads it from an older leader."""
    log = FakeLog([10, 20])
    log.epochs = {tp(1): LeaderEpoch(7)}

    ranges = planner(log).stream_ranges(offsets(0, 0), offsets(10, 20))

    assert [each.leader_epoch for each in ranges] == [-1, 7]
