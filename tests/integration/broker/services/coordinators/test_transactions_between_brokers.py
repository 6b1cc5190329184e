"""Transactions over partitions of several brokers: markers and verification between them."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterator
from typing import Literal

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.patience import Limit
from tests.support.several_brokers import SeveralBrokers
from tests.support.wire import Wire

from klamm.client.config import ClientConfig, parse_bootstrap_servers
from klamm.client.producer.producer import BlockingProducer
from klamm.client.producer.producer_config import ProducerConfig
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.schema.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from klamm.protocol.schema.list_transactions_request import ListTransactionsRequest
from klamm.protocol.schema.list_transactions_response import ListTransactionsResponse
from klamm.protocol.schema.write_txn_markers_request import WriteTxnMarkersRequest
from klamm.protocol.types import PartitionIndex, ProducerEpoch, ProducerId
from klamm.protocol.types import TopicPartition as PartitionOfTopic

PATIENCE_S = 60
PARTITIONS = 6


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeveralBrokers]:
    """Runs three brokers for all tests of this file; each test creates its own topic."""
    with SeveralBrokers(tmp_path_factory.mktemp("brokers"), 3) as brokers:
        yield brokers


@pytest.fixture(autouse=True)
def no_fault(brokers: SeveralBrokers) -> None:
    """Starts each test without requests and faults of an earlier one."""
    brokers.requests.clear()
    brokers.fault = lambda request: None


def new_topic(brokers: SeveralBrokers) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": brokers.bootstrap_servers})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(PATIENCE_S)
    assert set(brokers.leaders(name)) == set(brokers.ids)
    return name


def new_producer(brokers: SeveralBrokers, transactional_id: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": brokers.bootstrap_servers,
            "transactional.id": transactional_id,
            "retry.backoff.ms": 50,
            "socket.keepalive.enable": True,
        }
    )
    producer.init_transactions(PATIENCE_S)
    return producer


def coordinated_by(brokers: SeveralBrokers, broker_id: int) -> str:
    """Returns a new transactional id whose coordinator is that broker. The topic of the coordinators must exist."""
    context = brokers.server(broker_id).context
    assert context is not None
    leaders = brokers.leaders("__transaction_state")
    while True:
        transactional_id = f"id-{uuid.uuid4().hex[:8]}"
        if leaders[context.transactions.partition_for(transactional_id)] == broker_id:
            return transactional_id


def state_of(brokers: SeveralBrokers, coordinator: int, transactional_id: str) -> str:
    """Returns the state of a transaction in ListTransactions of its coordinator."""
    with Wire(brokers.address(coordinator)) as wire:
        response = wire.call(ListTransactionsResponse, 1, ListTransactionsRequest(duration_filter=-1))
    states = {each.transactional_id: each.transaction_state for each in response.transaction_states}
    return states[transactional_id]


def wait_for_state(brokers: SeveralBrokers, coordinator: int, transactional_id: str, state: str) -> None:
    limit = Limit(PATIENCE_S)
    while (found := state_of(brokers, coordinator, transactional_id)) != state:
        assert not limit.is_over, found
        time.sleep(0.02)


def committed(brokers: SeveralBrokers, topic: str, count: int) -> Counter[str]:
    """Returns the committed records of all partitions, once there are `count`, and after them no more."""
    consumer = Consumer(
        {
            "bootstrap.servers": brokers.bootstrap_servers,
            "group.id": f"reader-{uuid.uuid4().hex}",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    found: Counter[str] = Counter()
    ended: set[int | None] = set()
    while sum(found.values()) < count or len(ended) < PARTITIONS:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, f"only {found}"
        if message.error() is not None:
            ended.add(message.partition())
        else:
            ended.discard(message.partition())
            value = message.value()
            assert isinstance(value, bytes)
            found[value.decode()] += 1
    consumer.close()
    return found


def test_transactions_over_the_partitions_of_all_brokers(brokers: SeveralBrokers) -> None:
    """Transactions of several producers, coordinated by different brokers, commit or abort in partitions of all
    brokers. Each broker asks the coordinators on the others before it appends."""
    topic = new_topic(brokers)
    for number in range(6):
        producer = new_producer(brokers, f"id-{topic}-{number}")
        for outcome in ("commit", "abort", "commit"):
            producer.begin_transaction()
            for index in range(PARTITIONS):
                producer.produce(topic, f"{outcome}-{number}", partition=index)
            if outcome == "commit":
                producer.commit_transaction(PATIENCE_S)
            else:
                producer.flush(PATIENCE_S)  # else the records would not leave the client
                producer.abort_transaction(PATIENCE_S)
    found = committed(brokers, topic, 6 * 2 * PARTITIONS)
    assert found == Counter({f"commit-{number}": 2 * PARTITIONS for number in range(6)})
    for kind in (WriteTxnMarkersRequest, AddPartitionsToTxnRequest):
        senders = {sender for sender, request in brokers.requests if isinstance(request, kind)}
        assert senders == set(brokers.ids)


@pytest.mark.parametrize("lost", [None, "request", "answer"])
def test_brokers_add_the_partitions_of_new_producers(
    brokers: SeveralBrokers, lost: Literal["request", "answer"] | None
) -> None:
    """A producer of transaction version 2 adds no partitions: each broker adds its own at the coordinator. The producer
    sends again what a broker could not add because a connection was cut."""
    topic = new_topic(brokers)
    addresses = parse_bootstrap_servers(brokers.bootstrap_servers)
    left = {1, 2, 3}

    def fault(request: Message) -> Literal["request", "answer"] | None:
        if isinstance(request, AddPartitionsToTxnRequest) and lost and left:
            left.pop()
            return lost
        return None

    brokers.fault = fault
    for number in range(3):
        config = ProducerConfig(ClientConfig(addresses), transactional_id=f"id-{topic}-{number}")
        with BlockingProducer(config) as producer:
            producer.init_transactions()
            for outcome in ("commit", "abort", "commit"):
                producer.begin_transaction()
                for index in range(PARTITIONS):
                    producer.send(topic, f"{outcome}-{number}".encode(), partition=index)
                producer.flush()
                if outcome == "commit":
                    producer.commit_transaction()
                else:
                    producer.abort_transaction()
    found = committed(brokers, topic, 3 * 2 * PARTITIONS)
    assert found == Counter({f"commit-{number}": 2 * PARTITIONS for number in range(3)})
    additions = [request for _, request in brokers.requests if isinstance(request, AddPartitionsToTxnRequest)]
    assert not any(transaction.verify_only for request in additions for transaction in request.transactions)
    assert not lost or not left


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_a_marker_lost_on_the_way_is_sent_again(brokers: SeveralBrokers, lost: Literal["request", "answer"]) -> None:
    """If the connection is cut before or after the other broker has written the markers, they are sent again; the
    transaction completes, and its records are visible once."""
    topic = new_topic(brokers)
    new_producer(brokers, "the first")  # creates the topic of the coordinators
    left = 5

    def fault(request: Message) -> Literal["request", "answer"] | None:
        nonlocal left
        if isinstance(request, WriteTxnMarkersRequest) and left:
            left -= 1
            return lost
        return None

    brokers.fault = fault
    for broker_id in brokers.ids:
        transactional_id = coordinated_by(brokers, broker_id)
        producer = new_producer(brokers, transactional_id)
        for _ in range(2):
            producer.begin_transaction()
            for index in range(PARTITIONS):
                producer.produce(topic, str(broker_id), partition=index)
            producer.commit_transaction(PATIENCE_S)
        wait_for_state(brokers, broker_id, transactional_id, "CompleteCommit")
    assert left == 0
    found = committed(brokers, topic, 3 * 2 * PARTITIONS)
    assert found == Counter({str(broker_id): 2 * PARTITIONS for broker_id in brokers.ids})


def test_a_broker_that_is_away_for_a_while(brokers: SeveralBrokers) -> None:
    """A transaction whose partition's leader is away stays prepared until the leader is back; other transactions of the
    same coordinator end meanwhile."""
    topic = new_topic(brokers)
    new_producer(brokers, "the first")
    coordinator, away = 1, 3
    waiting, other = coordinated_by(brokers, coordinator), coordinated_by(brokers, coordinator)
    producer = new_producer(brokers, waiting)
    producer.begin_transaction()
    for index in range(PARTITIONS):
        producer.produce(topic, "waiting", partition=index)
    producer.flush(PATIENCE_S)
    brokers.stop(away)
    try:
        producer.commit_transaction(PATIENCE_S)
        leaders = brokers.leaders(topic)
        second = new_producer(brokers, other)
        for _ in range(3):
            second.begin_transaction()
            second.produce(topic, "other", partition=leaders.index(2))
            second.commit_transaction(PATIENCE_S)
        wait_for_state(brokers, coordinator, other, "CompleteCommit")
        assert state_of(brokers, coordinator, waiting) == "PrepareCommit"
    finally:
        brokers.start(away)
    wait_for_state(brokers, coordinator, waiting, "CompleteCommit")
    assert committed(brokers, topic, PARTITIONS + 3) == Counter({"waiting": PARTITIONS, "other": 3})
    producer.begin_transaction()
    producer.produce(topic, "later", partition=leaders.index(away))
    producer.commit_transaction(PATIENCE_S)
    assert committed(brokers, topic, PARTITIONS + 4)["later"] == 1


def test_a_coordinator_that_stops_before_its_markers_are_written(brokers: SeveralBrokers) -> None:
    """A coordinator continues after its next start: the markers that did not reach the other brokers are sent."""
    topic = new_topic(brokers)
    new_producer(brokers, "the first")
    coordinator = 2
    transactional_id = coordinated_by(brokers, coordinator)
    producer = new_producer(brokers, transactional_id)
    producer.begin_transaction()
    for index in range(PARTITIONS):
        producer.produce(topic, "record", partition=index)
    brokers.fault = lambda request: "request" if isinstance(request, WriteTxnMarkersRequest) else None
    producer.commit_transaction(PATIENCE_S)
    assert state_of(brokers, coordinator, transactional_id) == "PrepareCommit"
    brokers.stop(coordinator)
    brokers.fault = lambda request: None
    brokers.start(coordinator)
    wait_for_state(brokers, coordinator, transactional_id, "CompleteCommit")
    assert committed(brokers, topic, PARTITIONS) == Counter({"record": PARTITIONS})


def test_a_topic_deleted_while_its_leader_is_away(brokers: SeveralBrokers) -> None:
    """A transaction that waits for the leader of a partition completes when the topic is deleted."""
    topic = new_topic(brokers)
    new_producer(brokers, "the first")
    coordinator, away = 1, 3
    transactional_id = coordinated_by(brokers, coordinator)
    producer = new_producer(brokers, transactional_id)
    producer.begin_transaction()
    producer.produce(topic, "record", partition=brokers.leaders(topic).index(away))
    producer.flush(PATIENCE_S)
    brokers.stop(away)
    try:
        producer.commit_transaction(PATIENCE_S)
        assert state_of(brokers, coordinator, transactional_id) == "PrepareCommit"
        admin = AdminClient({"bootstrap.servers": brokers.bootstrap_servers})
        admin.delete_topics([topic])[topic].result(PATIENCE_S)
        wait_for_state(brokers, coordinator, transactional_id, "CompleteCommit")
    finally:
        brokers.start(away)


def test_offsets_of_groups_on_all_brokers(brokers: SeveralBrokers) -> None:
    """Offsets in transactions are committed whichever brokers coordinate the group and the transaction."""
    topic = new_topic(brokers)
    for number in range(6):
        consumer = Consumer(
            {
                "bootstrap.servers": brokers.bootstrap_servers,
                "group.id": f"group-{topic}-{number % 3}",
                "enable.auto.commit": False,
            }
        )
        producer = new_producer(brokers, f"id-{topic}-{number // 3}")
        for outcome, offset in (("commit", 7), ("abort", 9)):
            producer.begin_transaction()
            producer.produce(topic, "output", partition=number)
            offsets = [TopicPartition(topic, number, offset)]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), PATIENCE_S)
            if outcome == "commit":
                producer.commit_transaction(PATIENCE_S)
            else:
                producer.abort_transaction(PATIENCE_S)
        (found,) = consumer.committed([TopicPartition(topic, number)], PATIENCE_S)
        assert found.offset == 7
        consumer.close()
    targets = {
        topic_of_marker.name
        for _, request in brokers.requests
        if isinstance(request, WriteTxnMarkersRequest)
        for marker in request.markers
        for topic_of_marker in marker.topics
    }
    assert targets == {topic, "__consumer_offsets"}


def test_a_coordinator_that_can_not_be_asked(brokers: SeveralBrokers) -> None:
    """A broker that can't ask the coordinator of a transaction answers at once with the code that Kafka has for it."""
    topic = new_topic(brokers)
    new_producer(brokers, "the first")
    transactional_id = coordinated_by(brokers, 3)
    partition = PartitionOfTopic(topic, PartitionIndex(0))

    def ask() -> ErrorCode:
        context = brokers.server(1).context
        assert context is not None
        answer = context.transaction_verifier.add_partitions(
            transactional_id, ProducerId(1), ProducerEpoch(0), [partition], verify_only=True
        )

        async def wait() -> ErrorCode:
            return (await answer)[partition]

        return brokers.run(wait())

    assert ask() is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    brokers.fault = lambda request: "answer" if isinstance(request, AddPartitionsToTxnRequest) else None
    assert ask() is ErrorCode.NETWORK_EXCEPTION
    brokers.fault = lambda request: None
    brokers.stop(3)
    try:
        assert ask() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    finally:
        brokers.start(3)
    assert ask() in {ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.NETWORK_EXCEPTION}
