"""Transactions on the wire: Produce, Fetch, ListOffsets, TxnOffsetCommit, WriteTxnMarkers, DescribeProducers."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.support.wire import Wire

from klamm.broker.handlers import txn_offset_commit
from klamm.broker.partitions.led_topic import LedTopic
from klamm.broker.partitions.partition import Partition
from klamm.broker.server import BrokerServer
from klamm.broker.services.coordinators.transaction_verifier import TransactionVerifier
from klamm.metadata.service import MetadataService
from klamm.metadata.service import NewTopic as NewTopicOfService
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fetch_client import FetchResponse, decode_fetch_response, encode_fetch_request
from klamm.protocol.fetch_messages import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.produce import ProducePartitionResponse, ProduceRequest, ProduceTopic
from klamm.protocol.records import decode_records, encode_batch
from klamm.protocol.schema.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from klamm.protocol.schema.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from klamm.protocol.schema.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from klamm.protocol.schema.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from klamm.protocol.schema.describe_producers_request import DescribeProducersRequest, TopicRequest
from klamm.protocol.schema.describe_producers_response import DescribeProducersResponse
from klamm.protocol.schema.end_txn_request import EndTxnRequest
from klamm.protocol.schema.end_txn_response import EndTxnResponse
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse
from klamm.protocol.schema.init_producer_id_request import InitProducerIdRequest
from klamm.protocol.schema.init_producer_id_response import InitProducerIdResponse
from klamm.protocol.schema.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.schema.list_offsets_response import ListOffsetsResponse
from klamm.protocol.schema.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from klamm.protocol.schema.offset_fetch_response import OffsetFetchResponse
from klamm.protocol.schema.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from klamm.protocol.schema.txn_offset_commit_response import TxnOffsetCommitResponse
from klamm.protocol.schema.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from klamm.protocol.schema.write_txn_markers_response import WriteTxnMarkersResponse
from klamm.protocol.types import Millis, TopicId
from klamm.testing import Broker

NewTopic = Callable[..., tuple[str, TopicId]]

GROUP, TRANSACTION = 0, 1
LATEST = -1
PATIENCE_MS = 30_000
VERSION_1, VERSION_2 = 11, 12
"""Versions of Produce that mean transaction version 1 and 2."""


class Transaction:
    """A transactional producer whose single steps the test calls."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.transactional_id = f"t-{uuid.uuid4().hex[:12]}"
        self._sequences: dict[tuple[str, int], int] = {}
        for key, key_type in ((self.transactional_id, TRANSACTION), (self.transactional_id, GROUP)):
            find = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            (found,) = wire.call(FindCoordinatorResponse, 4, find).coordinators
            assert found.error_code == ErrorCode.NONE
        self.init()

    def init(self) -> None:
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=60_000)
        response = self.wire.call(InitProducerIdResponse, 4, request)
        assert response.error_code == ErrorCode.NONE
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        self._sequences.clear()

    def add(self, topic: str, *partitions: int) -> int:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
        )
        (answer,) = self.wire.call(AddPartitionsToTxnResponse, 3, request).results_by_topic_v3_and_below
        return answer.results_by_partition[0].partition_error_code

    def batch(self, topic: str, *values: bytes, index: int = 0, producer_id: int | None = None) -> bytes:
        now = Millis(time.time_ns() // 1_000_000)
        return encode_batch(
            [(now, None, value, ()) for value in values],
            producer_id=self.producer_id if producer_id is None else producer_id,
            producer_epoch=self.epoch,
            base_sequence=self._sequences.get((topic, index), 0),
            is_transactional=True,
        )

    def produce(self, version: int, topic: str, *values: bytes, index: int = 0) -> ProducePartitionResponse:
        records = memoryview(self.batch(topic, *values, index=index))
        request = ProduceRequest(self.transactional_id, -1, 10_000, [ProduceTopic(topic, None, [(index, records)])])
        (answer,) = self.wire.produce(version, request).topics[0].partitions
        if answer.error_code == ErrorCode.NONE:
            self._sequences[topic, index] = self._sequences.get((topic, index), 0) + len(values)
        return answer

    def end(self, version: int, *, committed: bool) -> int:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )
        response = self.wire.call(EndTxnResponse, version, request)
        if version >= 5 and response.error_code == ErrorCode.NONE:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            self._sequences.clear()
        return response.error_code

    def commit_offsets(self, version: int, *topics: tuple[str, int], offset: int = 5) -> list[int]:
        """Commits the offset for each partition; returns the error codes."""
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset)],
                )
                for topic, index in topics
            ],
        )
        response = self.wire.call(TxnOffsetCommitResponse, version, request)
        return [each.error_code for topic in response.topics for each in topic.partitions]


@pytest.fixture
def transaction(wire: Wire) -> Transaction:
    """Creates a transactional producer on the same connection."""
    return Transaction(wire)


def fetch_request(
    version: int, name: str, topic_id: TopicId, *, is_read_committed: bool = True, max_wait_ms: int = PATIENCE_MS
) -> FetchRequest:
    is_by_id = version >= 13
    topic = FetchTopic(
        None if is_by_id else name,
        topic_id if is_by_id else None,
        [FetchPartition(0, -1, 0, -1, -1, 1_000_000)],
    )
    return FetchRequest(-1, max_wait_ms, 1, 50_000_000, int(is_read_committed), 0, -1, [topic], [])


def values(response: FetchResponse) -> list[bytes | None]:
    records = response.topics[0].partitions[0].records
    assert isinstance(records, bytes | memoryview)
    return [record.value for record in decode_records(memoryview(records))]


# -- Produce -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "code"), [(10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)]
)
def test_partitions_must_be_added_first(
    transaction: Transaction, new_topic: NewTopic, version: int, code: ErrorCode
) -> None:
    """A producer of transaction version 1 can only write to partitions that were added to the transaction (KIP-890)."""
    name, _ = new_topic(2)
    assert transaction.produce(version, name, b"a").error_code == code
    assert transaction.add(name, 0) == ErrorCode.NONE
    assert transaction.produce(version, name, b"a").error_code == ErrorCode.NONE
    assert transaction.produce(version, name, b"b").error_code == ErrorCode.NONE
    assert transaction.produce(version, name, b"c", index=1).error_code == code


def test_produce_12_adds_partitions_itself(transaction: Transaction, new_topic: NewTopic) -> None:
    """Produce 12 adds partitions to the transaction (transaction version 2), and each transaction has its own epoch
    (KIP-890)."""
    name, topic_id = new_topic(2)
    for committed in (True, False, True):
        epoch = transaction.epoch
        for index in (0, 1):
            assert transaction.produce(VERSION_2, name, b"%d" % epoch, index=index).error_code == ErrorCode.NONE
        assert transaction.end(5, committed=committed) == ErrorCode.NONE
        assert transaction.epoch == epoch + 1
    # The next transaction may begin while the markers of the previous one are being written.
    assert transaction.produce(VERSION_2, name, b"open").error_code == ErrorCode.NONE
    response = transaction.wire.fetch(17, fetch_request(17, name, topic_id))
    assert values(response)[0] is not None


def test_what_no_transaction_takes_is_refused(transaction: Transaction, new_topic: NewTopic) -> None:
    """Batches of two producers in one request are refused, and so is a batch with an old producer epoch."""
    name, _ = new_topic(2)
    records: list[tuple[int, memoryview | None]] = [
        (index, memoryview(transaction.batch(name, b"a", producer_id=7 + index))) for index in (0, 1)
    ]
    request = ProduceRequest(transaction.transactional_id, -1, 10_000, [ProduceTopic(name, None, records)])
    (answer,) = transaction.wire.produce(VERSION_1, request).topics
    assert {each.error_code for each in answer.partitions} == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    old_epoch = transaction.epoch
    transaction.init()
    transaction.epoch = old_epoch
    assert transaction.produce(VERSION_2, name, b"a").error_code == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (VERSION_1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (VERSION_2, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (13, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (VERSION_2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (13, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_a_partition_that_is_led_only_after_the_question_is_tried_again(
    served: Broker,
    transaction: Transaction,
    new_topic: NewTopic,
    monkeypatch: pytest.MonkeyPatch,
    *,
    version: int,
    code: ErrorCode,
) -> None:
    """While the broker asks the transaction coordinator about some partitions of a request, it may begin to lead
    another one. The batch of that partition gets the error from before the question, which producers retry, and not
    INVALID_TXN_STATE, which aborts the transaction."""
    asked, asked_id = new_topic()
    late, late_id = new_topic()
    if version == VERSION_1:
        assert transaction.add(asked, 0) == ErrorCode.NONE
        assert transaction.add(late, 0) == ErrorCode.NONE
    hidden: list[LedTopic | Partition] = []

    async def hide(server: BrokerServer) -> None:
        assert server.context is not None
        registry = server.context.partitions
        if code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            hidden.append(registry.get(late, 0))
            registry.by_name[late].partitions[0] = None
        else:
            hidden.append(registry.by_name.pop(late))
            del registry.by_id[late_id]

        def show() -> None:
            (each,) = hidden
            if isinstance(each, Partition):
                registry.by_name[late].partitions[0] = each
            else:
                registry.by_name[late] = registry.by_id[late_id] = each

        ask = TransactionVerifier.add_partitions

        async def show_and_ask(self: TransactionVerifier, *args: Any, **options: Any) -> Mapping[Any, ErrorCode]:
            show()
            return await ask(self, *args, **options)

        monkeypatch.setattr(TransactionVerifier, "add_partitions", show_and_ask)

    served.run_in_broker(hide)
    topics = [
        ProduceTopic(
            None if version == 13 else name,
            topic_id if version == 13 else None,
            [(0, memoryview(transaction.batch(name, b"a")))],
        )
        for name, topic_id in ((late, late_id), (asked, asked_id))
    ]
    answer = transaction.wire.produce(version, ProduceRequest(transaction.transactional_id, -1, 10_000, topics))
    assert [each.partitions[0].error_code for each in answer.topics] == [code, ErrorCode.NONE]
    monkeypatch.undo()
    request = ProduceRequest(transaction.transactional_id, -1, 10_000, topics[:1])
    (again,) = transaction.wire.produce(version, request).topics
    assert again.partitions[0].error_code == ErrorCode.NONE


# -- reading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_of_fetch_tells_what_was_aborted(
    transaction: Transaction, new_topic: NewTopic, version: int
) -> None:
    """Each version of Fetch returns aborted transactions (producer id and first offset) and the last stable offset to a
    read_committed reader; a read_uncommitted reader gets no aborted transactions."""
    name, topic_id = new_topic()
    for committed in (False, True):
        assert transaction.produce(VERSION_2, name, b"a").error_code == ErrorCode.NONE
        assert transaction.end(5, committed=committed) == ErrorCode.NONE
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while True:  # Before the second marker is written, the response ends before the second transaction.
        response = transaction.wire.fetch(version, fetch_request(version, name, topic_id))
        partition = response.topics[0].partitions[0]
        if partition.last_stable_offset == 4:
            break
        assert time.monotonic() < deadline
    assert partition.high_watermark == 4
    assert [tuple(each) for each in partition.aborted_transactions or ()] == [(transaction.producer_id, 0)]
    request = fetch_request(version, name, topic_id, is_read_committed=False)
    partition = transaction.wire.fetch(version, request).topics[0].partitions[0]
    assert not partition.aborted_transactions


def test_a_reader_of_committed_records_waits_for_the_marker(
    served: Broker, transaction: Transaction, new_topic: NewTopic
) -> None:
    """A waiting read_committed fetch is answered when the first transaction ends, not when records arrive. The answer
    stops before the next open transaction."""
    name, topic_id = new_topic()
    other = Transaction(transaction.wire)
    with Wire(served.bootstrap_servers) as reader:
        reader.send(ApiKey.FETCH, 17, encode_fetch_request(17, fetch_request(17, name, topic_id)))
        assert transaction.produce(VERSION_2, name, b"a").error_code == ErrorCode.NONE
        assert other.produce(VERSION_2, name, b"b").error_code == ErrorCode.NONE
        assert transaction.produce(VERSION_2, name, b"c").error_code == ErrorCode.NONE
        assert transaction.end(5, committed=True) == ErrorCode.NONE
        response = decode_fetch_response(17, reader.receive(ApiKey.FETCH, 17))
    assert values(response) == [b"a"]
    assert response.topics[0].partitions[0].last_stable_offset == 1


def test_list_offsets_ends_where_all_is_decided(transaction: Transaction, new_topic: NewTopic) -> None:
    """With read_committed, ListOffsets stops at the last stable offset, both for the end offset and for a timestamp."""
    name, _ = new_topic()
    assert transaction.produce(VERSION_2, name, b"a").error_code == ErrorCode.NONE
    for isolation_level, timestamp, expected in ((0, LATEST, 1), (1, LATEST, 0), (0, 0, 0), (1, 0, -1)):
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[
                ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
            ],
        )
        response = transaction.wire.call(ListOffsetsResponse, 7, request)
        assert response.topics[0].partitions[0].offset == expected


# -- offsets -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(6))
def test_every_version_of_txn_offset_commit(transaction: Transaction, new_topic: NewTopic, version: int) -> None:
    """Offsets are unstable until the transaction ends; unknown partitions are refused individually."""
    name, _ = new_topic()
    refused = ErrorCode.TRANSACTION_ABORTABLE if version == 4 else ErrorCode.INVALID_TXN_STATE
    if version < 5:
        assert transaction.commit_offsets(version, (name, 0)) == [refused]
        request = AddOffsetsToTxnRequest(
            transactional_id=transaction.transactional_id,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.epoch,
            group_id=transaction.transactional_id,
        )
        assert transaction.wire.call(AddOffsetsToTxnResponse, 3, request).error_code == ErrorCode.NONE
    codes = transaction.commit_offsets(version, (name, 0), (name, 1), ("no-such-topic", 0))
    assert sorted(codes) == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert _fetch_offset(transaction, name) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert transaction.end(5 if version == 5 else 3, committed=True) == ErrorCode.NONE
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while (answer := _fetch_offset(transaction, name))[0] != ErrorCode.NONE:
        assert time.monotonic() < deadline
    assert answer == (ErrorCode.NONE, 5)


def test_many_offsets_of_a_transaction_are_committed_in_steps(
    transaction: Transaction, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offsets that are written in several steps belong to one transaction: all are unstable until it ends, then all are
    committed."""
    monkeypatch.setattr(txn_offset_commit, "OFFSETS_AT_ONCE", 2)
    name, _ = new_topic(5)
    partitions = [(name, index) for index in range(5)]
    assert transaction.commit_offsets(5, *partitions) == [ErrorCode.NONE] * 5
    assert {_fetch_offset(transaction, *each)[0] for each in partitions} == {ErrorCode.UNSTABLE_OFFSET_COMMIT}
    assert transaction.end(5, committed=True) == ErrorCode.NONE
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while (answers := [_fetch_offset(transaction, *each) for each in partitions]) != [(ErrorCode.NONE, 5)] * 5:
        assert time.monotonic() < deadline, answers


@pytest.mark.parametrize(("is_created_again", "has_others"), [(False, True), (True, True), (False, False)])
def test_no_offset_of_a_topic_that_is_deleted_during_the_question(
    served: Broker,
    transaction: Transaction,
    new_topic: NewTopic,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_created_again: bool,
    has_others: bool,
) -> None:
    """A topic may be deleted while the broker asks the transaction coordinator. Then its offsets are refused: a topic
    that is created again under the name would have them otherwise."""
    deleted, deleted_id = new_topic()
    kept, _ = new_topic()
    ask = TransactionVerifier.add_partitions

    async def find_metadata(server: BrokerServer) -> MetadataService:
        assert server.context is not None
        return server.context.metadata

    metadata = served.run_in_broker(find_metadata)

    async def delete_and_ask(self: TransactionVerifier, *args: Any, **options: Any) -> Mapping[Any, ErrorCode]:
        await metadata.delete_topics([deleted_id])
        if is_created_again:
            await metadata.create_topics([NewTopicOfService(deleted, partitions=1)])
        return await ask(self, *args, **options)

    monkeypatch.setattr(TransactionVerifier, "add_partitions", delete_and_ask)
    topics = [(deleted, 0), (kept, 0)] if has_others else [(deleted, 0)]
    codes = [ErrorCode.NONE] * has_others + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert sorted(transaction.commit_offsets(5, *topics)) == codes
    monkeypatch.undo()
    assert transaction.end(5, committed=True) == ErrorCode.NONE
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while (answer := _fetch_offset(transaction, kept)) != (ErrorCode.NONE, 5 if has_others else -1):
        assert time.monotonic() < deadline, answer
    assert _fetch_offset(transaction, deleted) == (ErrorCode.NONE, -1)


def _fetch_offset(transaction: Transaction, topic: str, index: int = 0) -> tuple[int, int]:
    group = OffsetFetchRequestGroup(
        group_id=transaction.transactional_id, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[index])]
    )
    response = transaction.wire.call(OffsetFetchResponse, 8, OffsetFetchRequest(groups=[group], require_stable=True))
    partition = response.groups[0].topics[0].partitions[0]
    return partition.error_code, partition.committed_offset


# -- markers and producers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
def test_an_administrator_ends_a_transaction_that_hangs(
    transaction: Transaction, new_topic: NewTopic, version: int
) -> None:
    """DescribeProducers shows a hanging transaction, and WriteTxnMarkers aborts it. After that, a marker with an older
    coordinator epoch is fenced (KIP-664)."""
    name, topic_id = new_topic()
    transaction.add(name, 0)
    transaction.produce(VERSION_1, name, b"a", b"b")
    request = DescribeProducersRequest(
        topics=[
            TopicRequest(name=name, partition_indexes=[0, 1]),
            TopicRequest(name="no-such-topic", partition_indexes=[0]),
            TopicRequest(name="not a topic", partition_indexes=[0]),
        ]
    )
    topics = transaction.wire.call(DescribeProducersResponse, 0, request).topics
    partition, none_there = topics[0].partitions
    (producer,) = partition.active_producers
    assert (producer.producer_id, producer.producer_epoch) == (transaction.producer_id, transaction.epoch)
    assert (producer.last_sequence, producer.coordinator_epoch, producer.current_txn_start_offset) == (1, -1, 0)
    assert none_there.error_code == topics[1].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert topics[2].partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    def abort(coordinator_epoch: int) -> dict[tuple[str, int], int]:
        marker = WritableTxnMarker(
            producer_id=transaction.producer_id,
            producer_epoch=transaction.epoch,
            coordinator_epoch=coordinator_epoch,
            transaction_result=False,
            topics=[
                WritableTxnMarkerTopic(name=name, partition_indexes=[0, 1]),
                WritableTxnMarkerTopic(name="no-such-topic", partition_indexes=[0]),
            ],
        )
        response = transaction.wire.call(WriteTxnMarkersResponse, version, WriteTxnMarkersRequest(markers=[marker]))
        (result,) = response.markers
        assert result.producer_id == transaction.producer_id
        return {
            (topic.name, each.partition_index): each.error_code for topic in result.topics for each in topic.partitions
        }

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert abort(9) == {(name, 0): ErrorCode.NONE, (name, 1): unknown, ("no-such-topic", 0): unknown}
    assert abort(8)[name, 0] == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    response = transaction.wire.fetch(12, fetch_request(12, name, topic_id))
    aborted = response.topics[0].partitions[0].aborted_transactions
    assert [tuple(each) for each in aborted or ()] == [(transaction.producer_id, 0)]
