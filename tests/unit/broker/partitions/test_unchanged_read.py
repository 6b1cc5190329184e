"""Tests that a session's partitions without news are neither read nor answered again, and that no news gets lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests.support.log_folder import NOW_MS, LogFolder, batch

from klamm.broker.handler_context import ConnectionInfo
from klamm.broker.partitions.fetch_answers import news_of
from klamm.broker.partitions.fetch_read import FetchRead
from klamm.broker.partitions.fetch_sessions import CachedPartition, FetchSession, FetchSessionCache
from klamm.broker.partitions.partition import Partition
from klamm.broker.partitions.partition_registry import PartitionRegistry
from klamm.broker.partitions.warm_reads import WarmReads
from klamm.config.topic_config import TopicConfig
from klamm.core.log.transaction_verification import UNVERIFIED
from klamm.metadata.image import MetadataImage, PartitionImage, TopicImage
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fetch_messages import NO_HIGH_WATERMARK, FetchPartition, FetchPartitionResponse, FetchRequest
from klamm.protocol.types import BrokerId, LeaderEpoch, Millis, Offset, PartitionIndex, TopicId, TopicPartition

ONE, TWO = BrokerId(1), BrokerId(2)
TOPIC_ID = TopicId(bytes(range(16)))
COUNT = 40
LAG_MS = 1000
MAX_BYTES = 1_000_000
CONSUMER = -1


class Port:
    """Broker 1, with a clock and a view of broker 2 that the test sets."""

    node_id = ONE
    max_lag_ms = LAG_MS

    def __init__(self) -> None:
        self.ms = 0.0
        self.epoch_of_two = 2
        self.proposed: list[Partition] = []

    def now_ms(self) -> float:
        return self.ms

    def live_epoch(self, broker_id: BrokerId) -> int | None:
        return 1 if broker_id == ONE else self.epoch_of_two

    def propose(self, partition: Partition) -> None:
        self.proposed.append(partition)

    def give_up(self, topic_partition: TopicPartition) -> None:
        raise AssertionError("no write fails here")


def image_of(epoch: int = 0) -> MetadataImage:
    partitions = tuple(
        PartitionImage(PartitionIndex(index), ONE, LeaderEpoch(epoch), (ONE, TWO), (ONE, TWO)) for index in range(COUNT)
    )
    topic = TopicImage("orders", TOPIC_ID, partitions)
    return MetadataImage(topics={"orders": topic}, topics_by_id={TOPIC_ID: topic})


class Leader:
    """Broker 1, which leads 40 partitions, and the fetch session of its follower or of a consumer."""

    def __init__(self, folder: LogFolder, replica_id: int) -> None:
        self.port = Port()
        self.registry = PartitionRegistry(ONE, folder.directory, lambda topic: TopicConfig())
        self.registry.replicate(self.port, lambda: True)
        self.registry.apply(None, image_of())
        self.replica_id = replica_id
        self.replica_epoch = 2
        self.isolation_level = 0
        start, high_watermark = (-1, NO_HIGH_WATERMARK) if replica_id == CONSUMER else (0, 0)
        cached = [
            CachedPartition(
                (TOPIC_ID, index),
                FetchPartition(index, -1, 0, -1, start, MAX_BYTES, high_watermark=high_watermark),
            )
            for index in range(COUNT)
        ]
        connection = ConnectionInfo("10.0.0.1", "10.0.0.1:5", "here", 9092)
        session = FetchSessionCache(10).create(cached, uses_topic_ids=True, now=Millis(0), connection=connection)
        assert session is not None
        self.session: FetchSession = session

    def partition(self, index: int) -> Partition:
        return self.registry.get("orders", index)

    def fetch(self) -> dict[int, FetchPartitionResponse]:
        """Answers the session's next request, and returns what it sends, by partition."""
        request = FetchRequest(
            self.replica_id, 0, 1, MAX_BYTES, self.isolation_level, 1, 1, [], [], replica_epoch=self.replica_epoch
        )
        sender = None if self.replica_id < 0 else BrokerId(self.replica_id)
        read = FetchRead(self.registry, cast(WarmReads, None), request, 18, MAX_BYTES, sender=sender)
        self.result = read.read(list(self.session.partitions.values()))
        return {answer.index: answer for _, answer in news_of(self.session, self.result.answers)}

    def show(self, image: MetadataImage) -> None:
        """Follows the next image of the metadata."""

        async def follow() -> None:
            self.registry.apply(image_of(), image)
            self.registry.finish()

        asyncio.run(follow())

    def settle(self) -> None:
        """Answers requests until no partition needs a read: one has the news, one shows that there are none."""
        self.fetch()
        self.fetch()
        assert self.fetch() == {}
        assert self.result.answers == []

    def ask(self, index: int, **changes: Any) -> None:
        """Changes what the session asks for."""
        cached = self.session.partitions[TOPIC_ID, index]
        cached.request = cached.request._replace(**changes)


@pytest.fixture(params=[CONSUMER, TWO], ids=["consumer", "follower"])
def leader(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Leader]:
    folder = LogFolder(tmp_path)
    made = Leader(folder, request.param)
    assert len(made.fetch()) == COUNT  # the first answers are news
    made.settle()
    yield made
    folder.close()


@pytest.fixture
def follower(tmp_path: Path) -> Iterator[Leader]:
    folder = LogFolder(tmp_path)
    made = Leader(folder, TWO)
    made.settle()
    yield made
    folder.close()


def test_partitions_without_news_have_no_answer(leader: Leader) -> None:
    """Nothing was read, and the request may wait: it is not the same as a request for no partitions."""
    assert leader.fetch() == {}
    assert leader.result.answers == []
    assert not leader.result.is_final


def test_only_the_partition_with_records_is_answered(leader: Leader) -> None:
    """A consumer gets committed records only. Each request has the news until the client asks from a new offset."""
    leader.partition(7).append(batch(), NOW_MS)
    if leader.replica_id == CONSUMER:
        assert leader.fetch() == {}
        leader.partition(7).follower_fetched(TWO, 2, Offset(1), Offset(0))
    for _ in range(2):
        assert [(index, bool(answer.records)) for index, answer in leader.fetch().items()] == [(7, True)]
    leader.ask(7, fetch_offset=1, high_watermark=1)
    leader.settle()


def test_deleted_records_are_news(leader: Leader) -> None:
    """The client learns the new log start offset."""
    leader.partition(3).append(batch(), NOW_MS)
    leader.partition(3).follower_fetched(TWO, 2, Offset(1), Offset(0))
    leader.ask(3, fetch_offset=1, high_watermark=1)
    leader.settle()
    leader.partition(3).log.delete_records_before(Offset(1))
    assert {index: answer.log_start_offset for index, answer in leader.fetch().items()} == {3: 1}
    if leader.replica_id != CONSUMER:
        leader.ask(3, log_start_offset=1)
    assert leader.fetch() == {}


def test_an_error_is_news_and_so_is_its_end(leader: Leader) -> None:
    """A client that asks with an old leader epoch hears of it, and after its next request of the end of the error."""
    for index in range(COUNT):
        leader.ask(index, current_leader_epoch=0)
    leader.fetch()
    leader.show(image_of(epoch=1))
    answers = leader.fetch()
    assert {answer.error_code for answer in answers.values()} == {ErrorCode.FENCED_LEADER_EPOCH}
    assert len(answers) == COUNT
    assert leader.result.is_final
    leader.ask(5, current_leader_epoch=1)
    assert leader.fetch()[5].error_code == 0
    for index in range(COUNT):
        leader.ask(index, current_leader_epoch=1)
    leader.settle()


def test_records_of_an_open_transaction_are_news_for_the_other_isolation_level(tmp_path: Path) -> None:
    """A session's requests may have different isolation levels. What a read of committed records leaves out is news for
    the next read of all records."""
    folder = LogFolder(tmp_path)
    leader = Leader(folder, CONSUMER)
    leader.settle()
    records = batch(producer_id=1, epoch=0, sequence=0, is_transactional=True)
    leader.partition(7).append(records, NOW_MS, verification_guard=UNVERIFIED)
    leader.partition(7).follower_fetched(TWO, 2, Offset(1), Offset(0))
    leader.isolation_level = 1
    for _ in range(3):
        assert not any(answer.records for answer in leader.fetch().values())
    leader.isolation_level = 0
    assert [index for index, answer in leader.fetch().items() if answer.records] == [7]
    folder.close()


def test_a_follower_stays_in_sync_while_nothing_is_written(follower: Leader) -> None:
    """Its requests show that it is there, although they need no read: the first record after a long time does not make
    it lag."""
    follower.port.ms = 100 * LAG_MS
    assert follower.fetch() == {}
    partition = follower.partition(0)
    partition.append(batch(), NOW_MS)
    assert partition.followers is not None
    partition.followers.check_lag(partition)
    assert follower.port.proposed == []
    follower.port.ms += LAG_MS + 1
    partition.followers.check_lag(partition)
    assert follower.port.proposed == [partition]


def test_a_run_of_the_follower_that_is_over_is_refused(follower: Leader) -> None:
    """The session may outlive the follower's run, but its requests do not count any more (KIP-903)."""
    follower.port.epoch_of_two = 3
    assert {answer.error_code for answer in follower.fetch().values()} == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    follower.replica_epoch = 3
    assert len(follower.fetch()) == COUNT
    assert follower.fetch() == {}


def test_a_partition_that_is_not_led_any_more_is_news(leader: Leader) -> None:
    """The client hears that another broker leads."""
    image = image_of()
    (topic,) = image.topics.values()
    moved = replace(topic.partitions[9], leader=TWO, leader_epoch=LeaderEpoch(1))
    topic = replace(topic, partitions=(*topic.partitions[:9], moved, *topic.partitions[10:]))
    leader.show(replace(image, topics={"orders": topic}, topics_by_id={TOPIC_ID: topic}))
    answers = leader.fetch()
    if leader.replica_id == CONSUMER:  # broker 1 is a follower now, and serves consumers
        assert answers == {}
    else:
        assert {index: answer.error_code for index, answer in answers.items()} == {9: ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_a_follower_with_an_old_leader_epoch_makes_no_progress(follower: Leader) -> None:
    """It may hold other records at these offsets: its refused request must not count as in sync."""
    for index in range(COUNT):
        follower.ask(index, current_leader_epoch=0)
    follower.settle()
    follower.show(image_of(epoch=1))
    assert {answer.error_code for answer in follower.fetch().values()} == {ErrorCode.FENCED_LEADER_EPOCH}
    followers = follower.partition(0).followers
    assert followers is not None
    assert followers.end_offsets == (-1,)


def test_a_follower_whose_log_diverges_makes_no_progress(follower: Leader) -> None:
    """Its fetch offset is the end of records that the leader does not have, so no record is committed with it."""
    partition = follower.partition(7)
    partition.append(batch(), NOW_MS)
    follower.ask(7, fetch_offset=2, last_fetched_epoch=0)
    assert {index: answer.diverging_epoch for index, answer in follower.fetch().items()} == {7: (0, 1)}
    assert partition.followers is not None
    assert partition.followers.end_offsets == (0,)
    assert partition.log.high_watermark == 0


def test_progress_that_commits_records_is_news(follower: Leader) -> None:
    """A follower that asks again hears of the high watermark that its own request has raised."""
    partition = follower.partition(7)
    partition.append(batch(), NOW_MS)
    partition.may_commit = lambda: False  # the session with the metadata store ends for a moment
    follower.ask(7, fetch_offset=1)
    follower.settle()
    partition.may_commit = lambda: True
    assert {index: answer.high_watermark for index, answer in follower.fetch().items()} == {7: 1}


def test_a_follower_hears_again_of_a_high_watermark_that_it_does_not_have(follower: Leader) -> None:
    """It drops an answer that arrives after it has learned of another leader epoch, or that makes it truncate its log.
    The request does not wait for records as long as the follower does not have the high watermark, so the answer must
    tell it: otherwise broker and follower would send requests and empty answers without a pause."""
    partition = follower.partition(7)
    partition.append(batch(), NOW_MS)
    follower.ask(7, fetch_offset=1)
    for _ in range(2):
        assert {index: answer.high_watermark for index, answer in follower.fetch().items()} == {7: 1}
        assert follower.result.is_final
        follower.ask(7, current_leader_epoch=0)
    follower.ask(7, high_watermark=1)
    follower.settle()


def test_a_follower_hears_again_of_deleted_records(follower: Leader) -> None:
    """DeleteRecords waits for the log start offset of the follower, which may have dropped the answer that told it."""
    partition = follower.partition(7)
    partition.append(batch(), NOW_MS)
    follower.ask(7, fetch_offset=1, high_watermark=1)
    follower.settle()
    partition.log.delete_records_before(Offset(1))
    for _ in range(2):
        assert {index: answer.log_start_offset for index, answer in follower.fetch().items()} == {7: 1}
        follower.ask(7, current_leader_epoch=0)
    follower.ask(7, log_start_offset=1)
    follower.settle()
