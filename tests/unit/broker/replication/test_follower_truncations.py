"""Tests how a broker truncates the logs of partitions that it follows, on its event loop."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.event_loop import in_loop
from tests.support.failing_calls import failing
from tests.support.log_folder import NOW_MS, TOPIC_ID, LogFolder, append, batch

from klamm.broker.partitions.replica_logs import FollowedLog, ReplicaLogs
from klamm.broker.replication.follower_truncations import FollowerTruncations
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import BrokerId, LeaderEpoch, Offset, PartitionIndex, TopicPartition
from klamm.storage.directory.offset_checkpoints import CheckpointContents

_LEADER = BrokerId(2)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[LogFolder]:
    folder = LogFolder(tmp_path / "data")
    yield folder
    folder.close()


class _Follower:
    """A broker that follows some partitions, and what has become of their truncations."""

    def __init__(self, folder: LogFolder, count: int = 1, *, batches: int = 10) -> None:
        self.logs = ReplicaLogs()
        self.truncations = FollowerTruncations(self.logs, folder.directory.truncations, lambda: NOW_MS)
        self.ended: list[tuple[FollowedLog, KafkaError | None]] = []
        self.followed: list[FollowedLog] = []
        for index in range(count):
            log = folder.create(TopicPartition("followed", PartitionIndex(index)))
            for sequence in range(batches):
                append(log, batch(producer_id=7, epoch=0, sequence=sequence))
            log.flush()
            self.follow(FollowedLog(TOPIC_ID, log, _LEADER, LeaderEpoch(3)))

    def follow(self, followed: FollowedLog) -> None:
        self.followed.append(followed)
        self.logs.follow(followed)

    def begin(self, followed: FollowedLog, end_offset: int | None) -> None:
        offset = None if end_offset is None else Offset(end_offset)
        self.truncations.begin(followed, offset, lambda *outcome: self.ended.append(outcome))

    async def wait(self, count: int = 1) -> int:
        """Returns how often the loop ran until so many truncations had ended."""
        turns = 0
        while len(self.ended) < count:
            await asyncio.sleep(0)
            turns += 1
        return turns


@in_loop
async def test_the_loop_runs_while_producers_are_rebuilt(folder: LogFolder) -> None:
    """A segment with many batches is read in many steps, between which other requests are answered."""
    follower = _Follower(folder, batches=8000)
    log = follower.followed[0].log
    log.state.high_watermark = Offset(7000)
    follower.begin(follower.followed[0], 7990)
    assert await follower.wait() >= 5
    assert log.producers.is_rebuilt
    assert follower.ended == [(follower.followed[0], None)]
    assert [entry.last_sequence for _, entry in log.producers.active()] == [7989]


@in_loop
async def test_logs_that_diverge_together_share_a_write(folder: LogFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failover each log of a broker may diverge: the checkpoints are written once for all of them."""
    follower = _Follower(folder, 30)
    names = folder.directory.names
    writes: list[object] = []
    write_durably = names.write_durably

    def counted(_: object, contents: CheckpointContents) -> None:
        writes.append(contents)
        write_durably(contents)

    monkeypatch.setattr(type(names), "write_durably", counted)
    for followed in follower.followed:
        follower.begin(followed, 4)
    await follower.wait(30)
    assert [outcome for _, outcome in follower.ended] == [None] * 30
    assert {followed.log.log_end_offset for followed in follower.followed} == {4}
    assert len(writes) == 1


@in_loop
async def test_an_offset_beyond_the_end_begins_the_log_again(folder: LogFolder) -> None:
    """The leader's log begins behind the end of this one, so nothing of this one is needed."""
    follower = _Follower(folder)
    follower.begin(follower.followed[0], 50)
    await follower.wait()
    log = follower.followed[0].log
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)
    assert follower.ended == [(follower.followed[0], None)]


@in_loop
async def test_another_leader_is_not_truncated_for(folder: LogFolder) -> None:
    """What a leader of an earlier epoch said does not count any more: the log stays, and the checkpoints say so."""
    follower = _Follower(folder)
    log = follower.followed[0].log
    follower.begin(follower.followed[0], 4)
    follower.follow(follower.followed[0]._replace(leader_epoch=LeaderEpoch(4)))
    follower.begin(follower.followed[1], None)
    await follower.wait()
    assert follower.ended == [(follower.followed[1], None)]
    assert log.log_end_offset == 10
    folder.crash()
    assert folder.log(log.topic_partition).log_end_offset == 10
    assert not folder.log(log.topic_partition).is_offline


@in_loop
async def test_a_log_that_was_to_begin_again_keeps_its_records_for_another_leader(folder: LogFolder) -> None:
    """The checkpoints may name the new log start offset already, when the leader changes and the log stays. Without a
    correction, a start after a crash would drop all records below that offset."""
    follower = _Follower(folder)
    log = follower.followed[0].log
    follower.begin(follower.followed[0], 50)
    await asyncio.sleep(0)
    follower.follow(follower.followed[0]._replace(leader_epoch=LeaderEpoch(4)))
    follower.begin(follower.followed[1], None)
    await follower.wait()
    folder.crash()
    restarted = folder.log(log.topic_partition)
    assert (restarted.log_start_offset, restarted.log_end_offset) == (0, 10)


@in_loop
async def test_a_disk_that_refuses_takes_the_log_offline(folder: LogFolder) -> None:
    """The truncation ends with the error that every later request gets, too."""
    follower = _Follower(folder)
    with failing("replace", errno.EIO):
        follower.begin(follower.followed[0], 4)
        await follower.wait()
    ((followed, failure),) = follower.ended
    assert failure is not None
    assert failure.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert followed.log.is_offline


@in_loop
async def test_a_stop_leaves_the_offsets_of_logs_that_are_not_cut(folder: LogFolder) -> None:
    """A broker that stops between the note and the cut writes the log's own offsets at its clean shutdown."""
    follower = _Follower(folder)
    follower.begin(follower.followed[0], 4)
    await asyncio.sleep(0)
    follower.truncations.stop()
    await asyncio.sleep(0)
    folder.restart()
    log = folder.log(follower.followed[0].log.topic_partition)
    assert (log.log_end_offset, log.recovery_point, log.high_watermark) == (10, 10, 10)


@in_loop
async def test_an_unexpected_error_of_the_note_loses_no_truncation(
    folder: LogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each truncation notes its offsets again by itself. Otherwise the partitions would not be fetched any more."""

    def fail(*_: object) -> None:
        raise RuntimeError("an error in the program")

    monkeypatch.setattr(folder.directory.truncations, "note_in_steps", fail)
    follower = _Follower(folder, 2)
    for followed in follower.followed:
        follower.begin(followed, 4)
    async with asyncio.timeout(10):
        await follower.wait(2)
    assert follower.ended == [(followed, None) for followed in follower.followed]
    assert {followed.log.log_end_offset for followed in follower.followed} == {4}


@in_loop
async def test_an_unexpected_error_at_the_end_of_a_truncation_loses_no_other(folder: LogFolder) -> None:
    """The fetcher of one partition fails when its truncation has ended. The truncations of others go on."""

    def fail(*_: object) -> None:
        raise RuntimeError("an error in the program")

    follower = _Follower(folder, 2)
    first, second = follower.followed
    follower.truncations.begin(first, Offset(4), fail)
    follower.begin(second, 4)
    async with asyncio.timeout(10):
        await follower.wait()
    assert follower.ended == [(second, None)]
    assert {followed.log.log_end_offset for followed in follower.followed} == {4}
