"""Tests what becomes of proposed in-sync replicas whose outcome is not known, because of an unexpected error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support.log_folder import NOW_MS, LogFolder, batch
from tests.support.metadata_brokers import brokers

from klamm.broker.partitions.followers import Followers
from klamm.broker.partitions.partition import Partition
from klamm.broker.replication.failed_logs import FailedLogs
from klamm.broker.replication.in_sync_proposals import InSyncProposals
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.image import MetadataImage
from klamm.metadata.replicas.isr_changes import IsrOutcome, IsrProposal
from klamm.metadata.service import MetadataService, NewTopic
from klamm.protocol.types import BrokerId, Offset, PartitionIndex, TopicPartition
from klamm.worker.simulated_loop import SimulatedLoop

ONE, TWO = BrokerId(1), BrokerId(2)
A_MOMENT_S = 0.1
LONG_S = 10


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[LogFolder]:
    folder = LogFolder(tmp_path / "data")
    yield folder
    folder.close()


def _run(scenario: Coroutine[Any, Any, None]) -> None:
    """Runs a scenario in simulated time."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(scenario)


class _Leader:
    """Broker 1, which leads partitions of `orders` that broker 2 follows and has left."""

    def __init__(self, metadata: MetadataService, folder: LogFolder) -> None:
        self.metadata = metadata
        self._tasks: list[asyncio.Task[None]] = []
        topic = metadata.image.topics["orders"]
        self.proposals = InSyncProposals(
            lambda: BrokerConfig(node_id=ONE),
            metadata,
            cast(FailedLogs, SimpleNamespace()),
            lambda coroutine: self._tasks.append(asyncio.ensure_future(coroutine)),
            lambda _: topic.topic_id,
        )
        self.partitions = []
        for image in topic.partitions:
            log = folder.create(TopicPartition("orders", PartitionIndex(image.index)))
            partition = Partition("orders", image, log)
            partition.replicate(Followers(image, partition.epoch_start_offset, self.proposals))
            self.partitions.append(partition)
        metadata.subscribe(self._follow)

    def _follow(self, _: MetadataImage, new: MetadataImage) -> None:
        for partition, image in zip(self.partitions, new.topics["orders"].partitions, strict=True):
            partition.follow(image, partition.log.config)
            partition.reconsider_high_watermark()

    def append(self) -> None:
        for partition in self.partitions:
            partition.append(batch(), NOW_MS)

    def fetch(self) -> None:
        """Broker 2 has fetched everything, from all partitions."""
        epoch = self.metadata.image.brokers[TWO].epoch
        for partition in self.partitions:
            partition.follower_fetched(TWO, epoch, partition.log.log_end_offset, Offset(0))

    @property
    def high_watermarks(self) -> list[int]:
        return [partition.log.high_watermark for partition in self.partitions]

    @property
    def in_sync(self) -> list[tuple[BrokerId, ...]]:
        return [partition.isr for partition in self.metadata.image.topics["orders"].partitions]


@asynccontextmanager
async def _leader(folder: LogFolder, partitions: int) -> AsyncIterator[_Leader]:
    async with brokers(1, 2) as (one, _):
        assignments = [(index, [1, 2]) for index in range(partitions)]
        await one.create_topics([NewTopic("orders", assignments=assignments)])
        topic = one.image.topics["orders"]
        alone = [
            IsrProposal(topic.topic_id, each.index, ONE, each.leader_epoch, each.partition_epoch, [(ONE, -1)])
            for each in topic.partitions
        ]
        await one.replicas.alter_isr(alone)
        yield _Leader(one, folder)


def test_proposal_is_made_again_after_an_unexpected_error(
    folder: LogFolder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without this, the partition would propose nothing in its leader epoch any more, and its high watermark would wait
    for a follower that has gone."""

    async def scenario() -> None:
        async with _leader(folder, 1) as leader:
            alter_isr, errors = leader.metadata.replicas.alter_isr, iter([RuntimeError("an error in the program")])

            async def fail_once(proposals: Sequence[IsrProposal]) -> list[IsrOutcome]:
                for error in errors:
                    raise error
                return await alter_isr(proposals)

            monkeypatch.setattr(leader.metadata.replicas, "alter_isr", fail_once)
            leader.append()
            leader.fetch()
            await asyncio.sleep(A_MOMENT_S)
            assert leader.in_sync == [(ONE,)]
            leader.append()
            assert leader.high_watermarks == [1], "it waits for broker 2, which may have joined"
            await asyncio.sleep(LONG_S)
            assert leader.in_sync == [(ONE, TWO)]
            leader.fetch()
            assert leader.high_watermarks == [2]

    _run(scenario())
    assert "an error in the program" in caplog.text


def test_proposal_that_happened_before_the_error_ends(
    folder: LogFolder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The second attempt finds another partition epoch, and the outcome is what the metadata have."""

    async def scenario() -> None:
        async with _leader(folder, 1) as leader:
            alter_isr, calls = leader.metadata.replicas.alter_isr, 0

            async def fail_late(proposals: Sequence[IsrProposal]) -> list[IsrOutcome]:
                nonlocal calls
                calls += 1
                outcomes = await alter_isr(proposals)
                if calls == 1:
                    raise RuntimeError("an error in the program")
                return outcomes

            monkeypatch.setattr(leader.metadata.replicas, "alter_isr", fail_late)
            leader.append()
            leader.fetch()
            await asyncio.sleep(LONG_S)
            assert (calls, leader.in_sync) == (2, [(ONE, TWO)])
            leader.append()
            leader.fetch()
            assert leader.high_watermarks == [2]

    _run(scenario())
    assert "an error in the program" in caplog.text


def test_error_of_one_proposal_does_not_stop_the_others(
    folder: LogFolder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Proposals that share a transaction are made again one at a time, so that those without an error succeed."""

    async def scenario() -> None:
        async with _leader(folder, 3) as leader:
            alter_isr = leader.metadata.replicas.alter_isr

            async def fail(proposals: Sequence[IsrProposal]) -> list[IsrOutcome]:
                if any(proposal.index == 1 for proposal in proposals):
                    raise RuntimeError("an error in the program")
                return await alter_isr(proposals)

            monkeypatch.setattr(leader.metadata.replicas, "alter_isr", fail)
            leader.append()
            leader.fetch()
            await asyncio.sleep(LONG_S)
            assert leader.in_sync == [(ONE, TWO), (ONE,), (ONE, TWO)]
            monkeypatch.setattr(leader.metadata.replicas, "alter_isr", alter_isr)
            await asyncio.sleep(LONG_S)
            assert leader.in_sync == [(ONE, TWO)] * 3

    _run(scenario())
    assert "an error in the program" in caplog.text
