"""Tests how a follower fetches: a log that can't be written to now and then, and one that begins within a batch.

Time is simulated.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from tests.support.failing_calls import failing
from tests.support.log_folder import NOW_MS, ORDERS, TOPIC_ID, LogFolder, append, read_bytes, sent

from klamm.broker.partitions.followed_partition import FollowerReads
from klamm.broker.partitions.replica_logs import FollowedLog, ReplicaLogs
from klamm.broker.replication.failed_logs import FailedLogs
from klamm.broker.replication.follower_truncations import FollowerTruncations
from klamm.broker.replication.leader_fetcher import LeaderFetcher
from klamm.broker.replication.replication_quotas import ReplicationQuotas
from klamm.broker.services.peers.peers import Peers
from klamm.config.broker_config import BrokerConfig
from klamm.core.replication.follower_fetch import FetchLimits
from klamm.metadata.service import MetadataService
from klamm.protocol.schema.fetch_request import FetchRequest
from klamm.protocol.schema.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from klamm.protocol.types import BrokerId, LeaderEpoch, Offset
from klamm.worker.simulated_loop import SimulatedLoop

_LEADER, _FOLLOWER = BrokerId(1), BrokerId(2)
_EPOCH = 3
_BACKOFF_MS = 1_000
_WAIT_S = 0.5
_MINUTE_S = 60.0


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    loop = SimulatedLoop()
    yield loop
    loop.close()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[LogFolder]:
    folder = LogFolder(tmp_path / "data")
    yield folder
    folder.close()


class _Leader:
    """The leader of one partition: it gives one record for each Fetch if it has one, and waits for one otherwise."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self.end_offset = 0
        self.log_start_offset = 0
        self.first_batch: bytes | None = None
        """The records of the first answer, if they are not one record at the fetch offset."""
        self.fetched: list[tuple[float, int, int]] = []
        """Time in seconds, fetch offset and log start offset of each Fetch that names the partition."""
        self._offset: int | None = None
        """The fetch offset of the partition in the session."""

    async def request(self, _: BrokerId, request: FetchRequest, __: type[FetchResponse]) -> FetchResponse:
        """Answers a Fetch as `Peers.request` does."""
        if request.forgotten_topics_data:
            self._offset = None
        for topic in request.topics:
            (partition,) = topic.partitions
            self._offset = partition.fetch_offset
            self.fetched.append((self._loop.time(), partition.fetch_offset, partition.log_start_offset))
        if self._offset is None or self._offset >= self.end_offset:
            await asyncio.sleep(_WAIT_S)
        if self._offset is None:
            return FetchResponse(session_id=1)
        records = sent(self._offset, _EPOCH) if self._offset < self.end_offset else None
        if self.first_batch is not None:
            records, self.first_batch = self.first_batch, None
        data = PartitionData(high_watermark=self.end_offset, log_start_offset=self.log_start_offset, records=records)
        return FetchResponse(session_id=1, responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])])


class _Metadata:
    """Counts how often a replica gives up its places."""

    is_closed = False

    def __init__(self) -> None:
        self.replicas = self
        self.given_up = 0

    async def give_up(self, failed: Sequence[object]) -> int:
        """Implements the part of `MetadataService.replicas` that a failed log uses."""
        self.given_up += 1
        return len(failed)


class _Follower:
    """A broker that follows one partition. Must be created on the running loop."""

    def __init__(self, folder: LogFolder, leader: _Leader) -> None:
        self.log = folder.log() if folder.directory.get(ORDERS) is not None else folder.create()
        self.metadata = _Metadata()
        self._tasks: list[asyncio.Task[None]] = []
        metadata = cast(MetadataService, self.metadata)
        self.failed_logs = FailedLogs(_FOLLOWER, metadata, self._spawn, lambda _: False, _BACKOFF_MS)
        logs = ReplicaLogs()
        self._fetcher = LeaderFetcher(
            _LEADER,
            _FOLLOWER,
            logs,
            cast(Peers, leader),
            reads=FollowerReads(),
            limits=FetchLimits(int(_WAIT_S * 1000), 1, 1 << 20, 1 << 20),
            backoff_ms=_BACKOFF_MS,
            own_epoch=lambda: 1,
            quotas=ReplicationQuotas(BrokerConfig()),
            truncations=FollowerTruncations(logs, folder.directory.truncations, lambda: NOW_MS),
            clock=lambda: NOW_MS,
            synced=None,
            failed_logs=self.failed_logs,
        )
        self._followed = FollowedLog(TOPIC_ID, self.log, _LEADER, LeaderEpoch(_EPOCH))
        logs.follow(self._followed)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.ensure_future(coroutine))

    def follow(self) -> None:
        """Begins to fetch."""
        self._fetcher.put(self._followed)

    def stop(self) -> None:
        """Ends all fetching."""
        self._fetcher.stop()


def test_a_replica_that_can_write_now_and_then_fetches_less_and_less(loop: SimulatedLoop, folder: LogFolder) -> None:
    """A disk that is almost full takes every second record. Each time that the replica has caught up, its leader may
    let it join the in-sync replicas, and the next record makes it leave. In a minute this happens some times only."""

    async def run() -> None:
        leader = _Leader(loop)
        follower = _Follower(folder, leader)
        follower.follow()
        while loop.time() < _MINUTE_S:
            leader.end_offset += 1
            with failing("pwritev", errno.ENOSPC, times=1):
                await asyncio.sleep(1)
        assert 4 < follower.metadata.given_up < 12
        offset, leader.end_offset = follower.log.log_end_offset, follower.log.log_end_offset + 100
        await asyncio.sleep(11)
        assert follower.log.log_end_offset == leader.end_offset > offset
        follower.stop()

    loop.run_until_complete(run())


def test_a_leader_that_could_not_write_does_not_follow_at_once(loop: SimulatedLoop, folder: LogFolder) -> None:
    """Its log ends where that of the next leader ends, so it would be in sync again without having written anything."""

    async def run() -> None:
        leader = _Leader(loop)
        follower = _Follower(folder, leader)
        follower.failed_logs.add(ORDERS)
        follower.follow()
        await asyncio.sleep(2)
        assert [time_s for time_s, *_ in leader.fetched] == [pytest.approx(_BACKOFF_MS / 1000, abs=0.01)]
        follower.stop()

    loop.run_until_complete(run())


def test_a_replica_without_room_deletes_what_its_leader_has_deleted(loop: SimulatedLoop, folder: LogFolder) -> None:
    """DeleteRecords makes room on a full disk, also on that of a follower, which tells its leader of it."""

    async def run() -> None:
        leader = _Leader(loop)
        append(folder.create(), leader_epoch=_EPOCH)
        leader.end_offset = 2
        follower = _Follower(folder, leader)
        with failing("pwritev", errno.ENOSPC):
            follower.follow()
            await asyncio.sleep(0.5)
            leader.log_start_offset = 1
            await asyncio.sleep(5)
            assert (follower.log.log_start_offset, follower.log.log_end_offset) == (1, 1)
            assert leader.fetched[-1][1:] == (1, 1)
        follower.stop()

    loop.run_until_complete(run())


def test_a_replica_that_begins_within_a_batch_takes_it_over(loop: SimulatedLoop, folder: LogFolder) -> None:
    """The leader's log begins at offset 3, within a batch, after a DeleteRecords. A new replica begins there: it takes
    the whole batch over, keeps the log start offset, and fetches on behind the batch."""

    async def run() -> None:
        leader = _Leader(loop)
        leader.end_offset, leader.log_start_offset = 6, 3
        leader.first_batch = sent(1, _EPOCH, last_offset_delta=3)
        folder.create().following.restart_at(Offset(3), NOW_MS)
        follower = _Follower(folder, leader)
        follower.follow()
        while follower.log.log_end_offset < leader.end_offset:  # noqa: ASYNC110 - waits for a thread
            await asyncio.sleep(0)
        await asyncio.sleep(1)
        assert (follower.log.log_start_offset, follower.log.log_end_offset, follower.log.high_watermark) == (3, 6, 6)
        assert read_bytes(follower.log) == sent(1, _EPOCH, last_offset_delta=3) + sent(5, _EPOCH)
        assert [offset for _, offset, _ in leader.fetched] == [3, 5, 6]
        follower.stop()

    loop.run_until_complete(run())
