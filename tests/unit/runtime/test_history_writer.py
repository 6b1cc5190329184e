"""Tests how the history of groups is written to its topic, without delaying any other work."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.core.group.history.story import Story, committed, parts
from tests.unit.runtime.fake_ports import LaterExecutor, ManualTimers, MemoryLog

from klamm.core.group.events import Cause, Event
from klamm.core.group.offsets.committed_offset import CommittedOffset
from klamm.protocol.compression import Compression
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.records import Record, read_batch_header
from klamm.protocol.types import LeaderEpoch, PartitionIndex
from klamm.runtime.history_writer import GroupHistory

P3 = PartitionIndex(3)
SECOND_MS = 1000
ENCODING_MS = 5
"""The time that the executor takes to encode a change."""


class HistoryInMemory(MemoryLog):
    """The history topic in memory, which must be created first; `finish` completes or fails the creation."""

    def __init__(self, *, is_ready: bool = True, max_batch_bytes: int = 1_048_588) -> None:
        super().__init__(max_batch_bytes=max_batch_bytes)
        self.is_ready = is_ready
        self.made: list[Callable[[bool], None]] = []
        self.is_called_off = False

    def make(self, done: Callable[[bool], None]) -> HistoryInMemory:
        self.made.append(done)
        return self

    def cancel(self) -> None:
        self.is_called_off = True

    def finish(self, is_made: bool = True) -> None:
        self.is_ready = is_made
        self.made[-1](is_made)


class ToldStory(Story):
    """A story whose events are published to the history writer, for partition 3."""

    def __init__(self, log: HistoryInMemory, *, group_id: str = "orders", writer: GroupHistory | None = None) -> None:
        super().__init__(group_id=group_id)
        self.log = log
        self.timers = ManualTimers()
        self.committed: dict[str, dict[PartitionIndex, CommittedOffset]] = {}
        self.epoch_of_coordinator: int | None = 5
        self.writer = writer or GroupHistory(
            log=log,
            timers=self.timers,
            executor=LaterExecutor(self.timers, delay_ms=ENCODING_MS),
            coordinator_epoch=self._epoch,
            committed_offsets=lambda group_id: {topic: dict(offsets) for topic, offsets in self.committed.items()},
            wall_clock=lambda: self.at,
        )

    def _epoch(self, partition: PartitionIndex) -> LeaderEpoch | None:
        return None if self.epoch_of_coordinator is None else LeaderEpoch(self.epoch_of_coordinator)

    def tell(self, *events: Event) -> None:
        self.writer.publish(P3, events)

    def records_written(self) -> list[Record]:
        return self.log.records(P3)

    def written(self) -> list[dict[str, Any]]:
        return [json.loads(record.value or b"") for record in self.records_written()]

    def change(self) -> None:
        """Publishes the events of one more record; the group must have a member a."""
        self.tell(self.paused("a"), self.needed(Cause.LEADER_REJOINED, "a"))
        self.settle({"a": parts(0)})


@pytest.fixture
def story() -> ToldStory:
    return ToldStory(HistoryInMemory())


def test_change_is_written_under_the_group_and_the_partition_of_its_coordinator(story: ToldStory) -> None:
    """A change is written with its end time, the coordinator's epoch, and the offsets committed at that time."""
    story.committed["events"] = {PartitionIndex(1): committed(42)}
    story.now = 2000
    story.start({"a": parts(0, 1)})
    story.committed["events"][PartitionIndex(1)] = committed(50)
    story.timers.advance(SECOND_MS)
    (record,) = story.records_written()
    assert (record.key, record.timestamp_ms) == (b"orders", 2000)
    (change,) = story.written()
    assert (change["coordinator_epoch"], change["sequence"], change["outcome"]) == (5, 0, "stable")
    assert [move["committed_offset"] for move in change["moved"]] == [None, 42]


def test_whoever_tells_does_not_wait(story: ToldStory) -> None:
    """`publish` returns before anything is written; changes that follow soon are written in the same batch."""
    story.start({"a": parts(0)})
    story.change()
    assert story.log.appends == 0
    story.timers.advance(SECOND_MS)
    assert story.log.appends == 1
    assert [change["sequence"] for change in story.written()] == [0, 1]


def test_topic_is_made_when_it_is_first_needed() -> None:
    """The topic is created some time after the first change, and later changes wait until it exists."""
    story = ToldStory(HistoryInMemory(is_ready=False))
    story.start({"a": parts(0)})
    story.timers.advance(10)
    assert not story.log.made
    story.timers.advance(SECOND_MS)
    story.change()
    story.timers.advance(SECOND_MS)
    assert len(story.log.made) == 1
    story.log.finish()
    assert [change["sequence"] for change in story.written()] == [0, 1]


def test_nothing_is_made_for_groups_without_a_change() -> None:
    """The topic is not created for a group that was only loaded, because loading changes nothing."""
    story = ToldStory(HistoryInMemory(is_ready=False))
    story.tell(story.loaded({"a": parts(0)}, epoch=3))
    story.timers.advance(10 * SECOND_MS)
    assert not story.log.made


def test_topic_that_can_not_be_made_costs_the_records_that_wait(caplog: pytest.LogCaptureFixture) -> None:
    """If the topic cannot be created, waiting records are dropped. The next change tries again and has a later
    sequence."""
    story = ToldStory(HistoryInMemory(is_ready=False))
    story.start({"a": parts(0)})
    story.timers.advance(SECOND_MS)
    story.log.finish(is_made=False)
    assert "there is no topic for the history of groups: 1 changes are left out" in caplog.text
    story.change()
    story.timers.advance(SECOND_MS)
    story.log.finish()
    assert [change["sequence"] for change in story.written()] == [1]


def test_log_that_refuses_costs_the_record(story: ToldStory, caplog: pytest.LogCaptureFixture) -> None:
    """A record that the log refuses is dropped with one line in the broker's log, and `publish` raises no error."""
    story.log.append_error = ErrorCode.KAFKA_STORAGE_ERROR
    story.start({"a": parts(0)})
    story.timers.advance(SECOND_MS)
    assert len([line for line in caplog.messages if "are not in their history" in line]) == 1
    story.log.append_error = None
    story.change()
    story.timers.advance(SECOND_MS)
    assert [change["sequence"] for change in story.written()] == [1]


class HistoryElsewhere(HistoryInMemory):
    """A history topic whose partitions are all led by other brokers."""

    @property
    def max_batch_bytes(self) -> int:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this broker leads no partition")

    @max_batch_bytes.setter
    def max_batch_bytes(self, value: int) -> None:
        pass


def test_topic_that_other_brokers_lead_costs_the_records(caplog: pytest.LogCaptureFixture) -> None:
    """If this broker leads no partition of the topic, the records are dropped with one line in the broker's log."""
    story = ToldStory(HistoryElsewhere())
    story.start({"a": parts(0)})
    story.timers.advance(SECOND_MS)
    assert len([line for line in caplog.messages if "are not in their history" in line]) == 1


def test_only_so_much_may_wait(caplog: pytest.LogCaptureFixture) -> None:
    """If too many changes wait, the latest ones are dropped. One log line reports the beginning, and one the number."""
    story = ToldStory(HistoryInMemory(is_ready=False))
    members = {f"member-{index}": parts() for index in range(1000)}
    story.start(members)
    for _ in range(40):
        story.tell(story.needed(Cause.LEADER_REJOINED, "member-0"))
        story.settle(members)
    story.timers.advance(SECOND_MS)
    story.log.finish()
    story.timers.advance(60 * SECOND_MS)
    sequences = [change["sequence"] for change in story.written()]
    assert sequences == list(range(len(sequences)))
    assert 20 <= len(sequences) < 41
    assert f"{41 - len(sequences)} changes of groups are not in their history" in caplog.text
    story.tell(story.needed(Cause.LEADER_REJOINED, "member-0"))
    story.settle(members)
    story.timers.advance(SECOND_MS)
    assert story.written()[-1]["sequence"] == 41


@pytest.mark.parametrize(("topics", "partitions"), [(1, 50_000), (10_000, 1)])
def test_committed_offsets_that_are_kept_count_in_what_may_wait(topics: int, partitions: int) -> None:
    """The limit for waiting changes includes their copies of the group's committed offsets, also for small groups."""
    story = ToldStory(HistoryInMemory(is_ready=False))
    of_topic = {PartitionIndex(index): committed(index) for index in range(partitions)}
    story.committed = {f"events-{number}": of_topic for number in range(topics)}
    story.start({"a": parts(0)})
    for _ in range(20):
        story.change()
    story.timers.advance(SECOND_MS)
    story.log.finish()
    sequences = [change["sequence"] for change in story.written()]
    assert sequences == list(range(len(sequences)))
    assert 2 <= len(sequences) <= 5
    story.committed.clear()
    for _ in range(20):
        story.change()
    story.timers.advance(SECOND_MS)
    assert len(story.written()) == len(sequences) + 20


def test_change_of_a_small_group_with_very_many_offsets_is_put_into_words_at_once() -> None:
    """A small group's change is encoded at once despite many offsets, as only those of moved partitions are read."""
    story = ToldStory(HistoryInMemory())
    story.committed["events"] = {PartitionIndex(index): committed(index) for index in range(10_000)}
    story.start({"a": parts(0)})
    story.timers.advance(10 + ENCODING_MS - 1)
    assert [change["sequence"] for change in story.written()] == [0]


def large_story() -> ToldStory:
    """Returns a story with one change of a group that takes long to encode, followed by a change of a small group."""
    story = ToldStory(HistoryInMemory())
    story.start({f"member-{index}": parts(index) for index in range(300)})
    story.timers.advance(60 * SECOND_MS)
    story.tell(story.needed(Cause.LEADER_REJOINED, "member-0"))
    story.settle({f"member-{index}": parts(index) for index in range(300)})
    small = ToldStory(story.log, group_id="small", writer=story.writer)
    small.start({"a": parts(0)})
    return story


def test_change_of_a_large_group_is_put_into_words_elsewhere() -> None:
    """A large group's change is encoded by the executor; later changes wait, so that the history keeps its order."""
    story = large_story()
    before = len(story.written())
    story.timers.advance(10 + ENCODING_MS - 1)
    assert len(story.written()) == before
    story.timers.advance(SECOND_MS)
    assert [change["group"] for change in story.written()[before:]] == ["orders", "small"]


def test_change_that_is_being_put_into_words_is_written_at_the_end() -> None:
    """A change that is being encoded when the writer stops is still written, and only once."""
    story = large_story()
    before = len(story.written())
    story.timers.advance(10 + ENCODING_MS - 1)
    story.writer.stop()
    story.timers.advance(SECOND_MS)
    assert [change["group"] for change in story.written()[before:]] == ["orders", "small"]


def test_batches_are_as_large_as_the_log_takes_and_compressed() -> None:
    """Batches stay within the log's size limit, and are compressed with gzip, which every client can read."""
    story = ToldStory(HistoryInMemory(max_batch_bytes=4000))
    story.start({"a": parts(0)})
    for _ in range(9):
        story.change()
    story.timers.advance(SECOND_MS)
    batches = story.log.partition(P3).batches
    assert len(batches) > 1
    assert {read_batch_header(batch).compression for _, _, batch in batches} == {Compression.GZIP}
    assert [change["sequence"] for change in story.written()] == list(range(10))


def test_names_that_are_not_ascii_are_written_as_they_are(story: ToldStory) -> None:
    """A group name that is not ASCII is in the key as UTF-8, and unchanged in the JSON value."""
    other = ToldStory(story.log, group_id="böse ☃", writer=story.writer)
    other.start({"a": parts(0)})
    story.timers.advance(SECOND_MS)
    (record,) = story.records_written()
    assert record.key == "böse ☃".encode()
    assert story.written()[0]["group"] == "böse ☃"


def test_coordinator_that_resigns_forgets_the_groups(story: ToldStory) -> None:
    """A coordinator that resigns forgets its groups; when it leads again, sequences start at 0 in another epoch."""
    story.start({"a": parts(0)})
    story.writer.on_resignation(P3)
    story.epoch_of_coordinator = 7
    story.tell(story.loaded({"a": parts(0)}, epoch=1))
    story.change()
    story.timers.advance(SECOND_MS)
    counted = [(change["coordinator_epoch"], change["sequence"], change["outcome"]) for change in story.written()]
    assert counted == [(5, 0, "stable"), (7, 0, "taken_over"), (7, 1, "stable")]


def test_change_after_the_resignation_is_left_out(story: ToldStory, caplog: pytest.LogCaptureFixture) -> None:
    """Events that arrive after this broker has resigned are dropped without an error; the new coordinator writes the
    history. Changes from before are still written."""
    story.start({"a": parts(0)})
    story.epoch_of_coordinator = None
    story.change()
    story.timers.advance(SECOND_MS)
    assert [change["sequence"] for change in story.written()] == [0]
    assert not caplog.records


def test_what_waits_is_written_at_the_end(story: ToldStory) -> None:
    """`stop` writes the waiting changes; later changes are not written."""
    story.start({"a": parts(0)})
    story.writer.stop()
    assert len(story.written()) == 1
    story.change()
    story.timers.advance(SECOND_MS)
    assert len(story.written()) == 1


def test_making_the_topic_is_called_off_at_the_end() -> None:
    """`stop` cancels the creation of the topic; if the topic is created anyway, nothing is written."""
    story = ToldStory(HistoryInMemory(is_ready=False))
    story.start({"a": parts(0)})
    story.timers.advance(SECOND_MS)
    story.writer.stop()
    assert story.log.is_called_off
    story.log.finish()
    assert story.written() == []


def test_a_failure_of_its_own_is_not_the_groups(
    story: ToldStory, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure of the writer does not reach the group. The partition's history starts again, with a log line."""

    def fail(*args: object) -> Any:
        raise ZeroDivisionError

    story.start({"a": parts(0)})
    story.writer._coordinator_epoch = fail
    story.change()
    assert "starting the history of its groups again" in caplog.text
    monkeypatch.setattr("klamm.runtime.history_writer.history_record", fail)
    story.timers.advance(SECOND_MS)
    assert "can't be told in its history" in caplog.text
    assert story.written() == []
