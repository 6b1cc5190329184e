"""Tests how one read of a Fetch answers for a leader whose metadata may be outdated."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

import pytest
from tests.support.log_folder import NOW_MS, LogFolder, batch

from klamm.broker.partitions.fetch_read import FetchRead
from klamm.broker.partitions.fetch_sessions import CachedPartition
from klamm.broker.partitions.partition_registry import PartitionRegistry
from klamm.broker.partitions.warm_reads import WarmReads
from klamm.broker.replication.replication_quotas import ReplicationQuotas
from klamm.config.broker_config import BrokerConfig
from klamm.config.topic_config import TopicConfig
from klamm.metadata.image import MetadataImage, PartitionImage, TopicImage
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fetch_messages import FetchPartition, FetchRequest
from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex, TopicId
from klamm.storage.log.stored_batches import StoredBatches

ONE, TWO = BrokerId(1), BrokerId(2)
TOPIC_ID = TopicId(bytes(range(16)))
MAX_BYTES = 1_000_000
LARGE = 100_000
CONSUMER = -1
NOT_HERE = 5


@pytest.mark.parametrize(
    ("has_session", "code"), [(True, ErrorCode.OFFSET_OUT_OF_RANGE), (False, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
)
def test_a_leader_without_a_session_denies_no_offset(tmp_path: Path, has_session: bool, code: ErrorCode) -> None:
    """Another broker may lead the partition and have the offset: a consumer that is told OFFSET_OUT_OF_RANGE would read
    from the beginning or the end of the log (I17)."""
    folder = LogFolder(tmp_path)
    registry = PartitionRegistry(ONE, folder.directory, lambda topic: TopicConfig())
    topic = TopicImage("orders", TOPIC_ID, (PartitionImage(PartitionIndex(0), ONE, LeaderEpoch(0), (ONE,), (ONE,)),))
    registry.apply(None, MetadataImage(topics={"orders": topic}, topics_by_id={TOPIC_ID: topic}))
    registry.get("orders", 0).may_commit = lambda: has_session
    request = FetchRequest(CONSUMER, 0, 1, MAX_BYTES, 0, 1, 1, [], [])
    wanted = CachedPartition((TOPIC_ID, 0), FetchPartition(0, -1, NOT_HERE, -1, 0, MAX_BYTES))
    answers = FetchRead(registry, cast(WarmReads, None), request, 18, MAX_BYTES).read([wanted]).answers
    assert [answer.error_code for _, answer in answers] == [code]
    folder.close()


def test_a_follower_may_ask_for_a_partition_that_the_leader_does_not_know_yet(tmp_path: Path) -> None:
    """The topic has grown, and the follower has heard of it first. The answers for the other partitions count."""
    folder = LogFolder(tmp_path)
    registry = PartitionRegistry(ONE, folder.directory, lambda topic: TopicConfig())
    topic = TopicImage("orders", TOPIC_ID, (PartitionImage(PartitionIndex(0), ONE, LeaderEpoch(0), (ONE,), (ONE,)),))
    registry.apply(None, MetadataImage(topics={"orders": topic}, topics_by_id={TOPIC_ID: topic}))
    request = FetchRequest(TWO, 0, 1, MAX_BYTES, 0, 1, 1, [], [])
    wanted = CachedPartition((TOPIC_ID, 1), FetchPartition(1, 0, 0, -1, 0, MAX_BYTES))
    quotas = ReplicationQuotas(BrokerConfig())
    read = FetchRead(registry, cast(WarmReads, None), request, 18, MAX_BYTES, sender=TWO, quotas=quotas)
    answers = read.read([wanted]).answers
    read.count_sent(answers)
    assert [answer.error_code for _, answer in answers] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    folder.close()


@pytest.mark.parametrize("to_send", [False, True])
def test_records_within_reach_are_counted_without_reading_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to_send: bool
) -> None:
    """A request that found less than its minimum looks at the next batch of each partition, which may be large and does
    not belong to the answer. Records that would be sent from their file are not read either."""
    folder = LogFolder(tmp_path)
    registry = PartitionRegistry(ONE, folder.directory, lambda topic: TopicConfig())
    topic = TopicImage("orders", TOPIC_ID, (PartitionImage(PartitionIndex(0), ONE, LeaderEpoch(0), (ONE,), (ONE,)),))
    registry.apply(None, MetadataImage(topics={"orders": topic}, topics_by_id={TOPIC_ID: topic}))
    partition = registry.get("orders", 0)
    for _ in range(2):
        partition.append(batch(value=bytes(LARGE)), NOW_MS)
    request = FetchRequest(CONSUMER, 0, 1, MAX_BYTES, 0, 1, 1, [], [])
    wanted = CachedPartition((TOPIC_ID, 0), FetchPartition(0, -1, 0, -1, 0, 2 * LARGE))
    read = FetchRead(registry, cast(WarmReads, None), request, 18, MAX_BYTES)
    answers = read.read([wanted], to_send=to_send).answers
    assert isinstance(answers[0][1].records, StoredBatches) is to_send
    sizes: list[int] = []
    pread = os.pread

    def count(descriptor: int, size_bytes: int, position: int) -> bytes:
        sizes.append(size_bytes)
        return pread(descriptor, size_bytes, position)

    monkeypatch.setattr(os, "pread", count)
    assert LARGE < read.reach(answers) == 2 * LARGE
    assert sum(sizes) < LARGE // 2
    folder.close()
