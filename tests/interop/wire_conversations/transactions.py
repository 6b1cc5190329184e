"""Conversations about transactions in partitions and groups: Produce, Fetch, ListOffsets, TxnOffsetCommit,
WriteTxnMarkers, DescribeProducers."""

from __future__ import annotations

from typing import Any

from tests.interop.wire_conversations.batches import batch
from tests.interop.wire_conversations.peer import Topic
from tests.interop.wire_conversations.talk import Talk, conversation
from tests.interop.wire_conversations.transactional_producer import TransactionalProducer

from klamm.protocol.api import ApiKey
from klamm.protocol.schema.describe_producers_request import DescribeProducersRequest, TopicRequest
from klamm.protocol.schema.fetch_request import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.schema.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.schema.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from klamm.protocol.schema.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from klamm.protocol.schema.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from klamm.protocol.schema.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

COMMITTED = 1


def produce(talk: Talk, transactional_id: str | None, topic: Topic, *batches: tuple[int, bytes]) -> None:
    data = TopicProduceData(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_data=[PartitionProduceData(index=index, records=memoryview(each)) for index, each in batches],
    )
    talk.ask(ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=10_000, topic_data=[data]))


def fetch(talk: Talk, topic: Topic, offset: int, *, maximum_bytes: int = 1_000_000, isolation: int = COMMITTED) -> None:
    partition = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=maximum_bytes, current_leader_epoch=-1
    )
    wanted = FetchTopic(topic=topic.name, topic_id=topic.topic_id, partitions=[partition])
    talk.ask(FetchRequest(max_wait_ms=0, min_bytes=1, isolation_level=isolation, session_epoch=-1, topics=[wanted]))


@conversation(ApiKey.PRODUCE, until=11)
def produce_before_and_after_partitions_are_added(talk: Talk) -> None:
    """Produces to partitions before and after they are added; the broker refuses partitions that are not in the
    transaction (KIP-890)."""
    topic = talk.topic("topic", 2)
    producer = TransactionalProducer(talk)
    first = producer.batch(topic, b"a")
    produce(talk, producer.transactional_id, topic, (0, first))
    produce(talk, None, topic, (0, first))
    producer.add(topic, 0)
    produce(talk, producer.transactional_id, topic, (0, first), (1, producer.batch(topic, b"b", index=1)))
    produce(talk, producer.transactional_id, topic, (0, first))
    produce(talk, producer.transactional_id, topic, (0, producer.batch(topic, b"c", base_sequence=7)))
    plain: dict[str, Any] = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch, "base_sequence": 1}
    produce(talk, producer.transactional_id, topic, (0, batch(b"d", **plain)))
    producer.end(committed=False)
    produce(talk, producer.transactional_id, topic, (0, producer.batch(topic, b"e", base_sequence=1)))


@conversation(ApiKey.PRODUCE, since=12)
def produce_that_adds_partitions(talk: Talk) -> None:
    """Produces under transaction version 2, where the broker adds the partitions (KIP-890)."""
    topic = talk.topic("topic", 2)
    producer = TransactionalProducer(talk)
    first = producer.batch(topic, b"a")
    produce(talk, producer.transactional_id, topic, (0, producer.batch(topic, b"b", base_sequence=3)))
    produce(talk, producer.transactional_id, topic, (0, first), (1, producer.batch(topic, b"c", index=1)))
    produce(talk, producer.transactional_id, topic, (0, first))
    produce(talk, talk.name("nobody"), topic, (0, first))
    produce(talk, producer.transactional_id, topic, (0, producer.batch(topic, b"d", producer_epoch=9)))


@conversation(ApiKey.PRODUCE)
def produce_of_producers_that_are_none(talk: Talk) -> None:
    """Produces batches of two producers in one request, and a batch with an old epoch."""
    topic = talk.topic("topic", 2)
    old, other = TransactionalProducer(talk), TransactionalProducer(talk, "other")
    mixed = (0, old.batch(topic, b"a")), (1, other.batch(topic, b"b", index=1))
    produce(talk, old.transactional_id, topic, *mixed)
    old.add(topic, 0)
    old.append(topic, b"c")
    TransactionalProducer(talk)
    produce(talk, old.transactional_id, topic, (0, old.batch(topic, b"d")))


@conversation(ApiKey.FETCH)
def fetch_of_committed_records(talk: Talk) -> None:
    """Fetches records up to the last stable offset, with aborted transactions."""
    topic = talk.topic("topic", 1, segment_bytes="1048576", index_interval_bytes="100")
    first, second = TransactionalProducer(talk, "first"), TransactionalProducer(talk, "second")
    for turn, committed in enumerate((True, False, False)):
        for producer in (first, second):
            producer.add(topic, 0)
            producer.append(topic, b"%d" % turn * 40, b"x")
        talk.append(topic, batch(b"plain"))
        first.end(committed=committed)
        second.end(committed=not committed)
    first.add(topic, 0)
    first.append(topic, b"open")
    talk.append(topic, batch(b"behind"))
    for offset in (0, 5, 9, 14, 18, 21, 22, 23, 24):
        fetch(talk, topic, offset)
        fetch(talk, topic, offset, maximum_bytes=200)
    fetch(talk, topic, 18, isolation=0)


@conversation(ApiKey.LIST_OFFSETS, since=2)
def list_offsets_of_committed_records(talk: Talk) -> None:
    """Lists offsets of a log with an open transaction; with read_committed, the log ends at the last stable offset."""
    topic = talk.topic("topic")
    talk.append(topic, batch(b"a"))
    producer = TransactionalProducer(talk)
    producer.add(topic, 0)
    producer.append(topic, b"b")
    for isolation in (0, COMMITTED):
        for timestamp in (-1, -2, 0, 1_800_000_000_000):
            partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=-1)
            wanted = ListOffsetsTopic(name=topic.name, partitions=[partition])
            talk.ask(ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[wanted]))


@conversation(ApiKey.TXN_OFFSET_COMMIT)
def offsets_in_a_transaction(talk: Talk) -> None:
    """Commits offsets in a transaction; they are unstable until the transaction ends (KIP-447)."""
    topic, group = talk.topic("topic", 2), talk.name("group")
    producer = TransactionalProducer(talk)

    def commit(name: str, *offsets: tuple[int, int, str | None], **fields: Any) -> None:
        partitions = [
            TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=metadata)
            for index, offset, metadata in offsets
        ]
        wanted = TxnOffsetCommitRequestTopic(name=name, partitions=partitions)
        talk.ask(TxnOffsetCommitRequest(topics=[wanted], **({"group_id": group} | producer.identity | fields)))

    def fetch_offsets() -> None:
        wanted = OffsetFetchRequestTopics(name=topic.name, partition_indexes=[0, 1])
        groups = [OffsetFetchRequestGroup(group_id=group, topics=[wanted])]
        talk.ask(OffsetFetchRequest(groups=groups, require_stable=True), 9)

    commit(topic.name, (0, 5, "not added"), producer_epoch=9)
    if talk.version < 5:
        commit(topic.name, (0, 5, "not added"))
        producer.add_offsets(group)
    commit("wire-no-such-topic", (0, 5, ""))
    commit(topic.name, (0, 5, "m" * 5000), (7, 1, ""))
    commit(topic.name, (0, 5, "first"), (1, 6, None))
    commit(topic.name, (0, 7, "second"))
    commit(topic.name, (0, 7, ""), group_id="")
    if talk.version >= 3:
        commit(topic.name, (0, 7, ""), member_id="ghost", generation_id=3)
    fetch_offsets()
    producer.end(committed=True)
    fetch_offsets()


@conversation(ApiKey.WRITE_TXN_MARKERS)
def markers(talk: Talk) -> None:
    """Writes transaction markers; markers with an old coordinator epoch or producer epoch are refused."""
    topic = talk.topic("topic", 2)
    TransactionalProducer(talk)
    producer = TransactionalProducer(talk)
    assert producer.epoch == 1
    producer.add(topic, 0, 1)
    producer.append(topic, b"a")

    def write(coordinator_epoch: int, epoch: int, *partitions: int, version: int = 0) -> None:
        names = [WritableTxnMarkerTopic(name=topic.name, partition_indexes=list(partitions))]
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=epoch,
            transaction_result=False,
            coordinator_epoch=coordinator_epoch,
            transaction_version=version,
            topics=names,
        )
        talk.ask(WriteTxnMarkersRequest(markers=[marker]))
        request = DescribeProducersRequest(topics=[TopicRequest(name=topic.name, partition_indexes=[0, 1])])
        talk.ask(request, 0)

    talk.ask(WriteTxnMarkersRequest())
    write(5, producer.epoch - 1, 0)
    write(5, producer.epoch, 0, 1, 7, version=2)
    write(5, producer.epoch, 0, 1)
    write(4, producer.epoch, 0)
    write(6, producer.epoch, 0, version=2)
    write(6, producer.epoch + 1, 0, version=2)


@conversation(ApiKey.DESCRIBE_PRODUCERS)
def producers(talk: Talk) -> None:
    """Describes producers with and without transactions, one in each partition, because Apache Kafka lists the
    producers of a partition by the hashes of their ids."""
    topic = talk.topic("topic", 2)
    producer = TransactionalProducer(talk)
    producer.add(topic, 0)
    producer.append(topic, b"a", b"b")
    other = batch(b"c", producer_id=producer.producer_id + 100_000, producer_epoch=3, base_sequence=0)
    talk.append(topic, other, index=1)
    topics = [
        TopicRequest(name=topic.name, partition_indexes=[0, 1, 2]),
        TopicRequest(name="wire-no-such-topic", partition_indexes=[0]),
        TopicRequest(name="no topic", partition_indexes=[0]),
    ]
    talk.ask(DescribeProducersRequest(topics=topics))
    producer.end(committed=True)
    talk.ask(DescribeProducersRequest(topics=topics[:1]))
