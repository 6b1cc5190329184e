"""`klamm txn`, with a real broker and real transactional producers."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.integration.cli.conftest import Command
from tests.support.wire import Wire

from klamm.protocol.errors import ErrorCode
from klamm.protocol.produce import ProduceRequest, ProduceTopic
from klamm.protocol.records import encode_batch
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse
from klamm.protocol.schema.init_producer_id_request import InitProducerIdRequest
from klamm.protocol.schema.init_producer_id_response import InitProducerIdResponse
from klamm.protocol.types import Millis
from klamm.testing import Broker

HOUR_MS = 3_600_000
PATIENCE_S = 30


@pytest.fixture
def transactional_id() -> str:
    """Returns an unused transactional id."""
    return f"transfers-{uuid.uuid4().hex[:12]}"


def begin(broker: Broker, transactional_id: str, topic: str) -> Producer:
    """Returns a producer with an open transaction on partition 1 of the topic."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": transactional_id})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"a", partition=1)
    assert producer.flush(PATIENCE_S) == 0
    return producer


def test_transaction_is_listed_and_described(broker: Broker, klamm: Command, topic: str, transactional_id: str) -> None:
    """An open transaction is listed with its state and described with its partitions; an ended transaction is described
    with its final state."""
    producer = begin(broker, transactional_id, topic)
    (listed,) = klamm.rows("txn", "list", "--pattern", transactional_id)
    assert (listed["transactional_id"], listed["state"], listed["coordinator"]) == (transactional_id, "Ongoing", 1)
    (described,) = klamm.rows("txn", "describe", transactional_id)
    assert (described["topic"], described["partition"]) == (topic, 1)
    assert described["producer_id"] == listed["producer_id"]
    assert described["timeout_ms"] == 60_000
    assert described["duration_ms"] >= 0
    producer.commit_transaction(PATIENCE_S)
    (described,) = klamm.rows("txn", "describe", transactional_id)
    assert described["state"] == "CompleteCommit"
    assert described["topic"] is None
    assert described["duration_ms"] is None


def test_list_is_filtered(broker: Broker, klamm: Command, topic: str, transactional_id: str) -> None:
    """`klamm txn list` filters by state, by producer, and by how long the transaction has been open."""
    producer = begin(broker, transactional_id, topic)
    (listed,) = klamm.rows("txn", "list", "--pattern", transactional_id)
    mine = ("--producer-id", str(listed["producer_id"]))
    assert klamm.rows("txn", "list", *mine, "--state", "Ongoing") == [listed]
    assert klamm.rows("txn", "list", *mine, "--state", "Empty", "--state", "CompleteCommit") == []
    assert klamm.rows("txn", "list", *mine, "--longer-than", "0s") == [listed]
    assert klamm.rows("txn", "list", *mine, "--longer-than", "1h") == []
    producer.abort_transaction(PATIENCE_S)
    assert klamm.rows("txn", "list", *mine, "--longer-than", "0s") == []


def test_what_is_not_there_is_said(klamm: Command, topic: str) -> None:
    """An unknown transaction, partition or topic is an error with exit status 1 and no standard output."""
    for words, reason in (
        (("describe", "nobody"), "there is no transactional id 'nobody'"),
        (("abort", f"{topic}:0", "7"), "begins at offset 7"),
        (("abort", f"{topic}:99", "7"), "there is no partition"),
        (("list", "--hanging", "--topic", "nowhere"), "there is no topic nowhere"),
        (("list", "--pattern", "a(b"), "INVALID_REGULAR_EXPRESSION"),
    ):
        finished = klamm("txn", *words)
        assert (finished.status, finished.stdout) == (1, "")
        assert reason in finished.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("list", "--topic", "events"),
        ("list", "--hanging", "--state", "Empty"),
        ("list", "--state", "Asleep"),
        ("abort", "events", "7"),
        ("abort", "events:1,2", "7"),
    ],
)
def test_wrong_use_is_refused(klamm: Command, words: tuple[str, ...]) -> None:
    """A wrong command line exits with status 2."""
    assert klamm("txn", *words).status == 2


# Hanging transactions


@pytest.fixture(scope="module")
def lenient_broker() -> Iterator[Broker]:
    """Runs a broker that lets late batches open transactions, as brokers before KIP-890 did."""
    with Broker(config={"transaction.partition.verification.enable": "false"}) as running:
        yield running


def hang(broker: Broker, topic: str, transactional_id: str) -> int:
    """Writes a transactional batch that the coordinator does not know; returns the producer id."""
    with Wire(broker.bootstrap_servers) as wire:
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id])
        assert wire.call(FindCoordinatorResponse, 4, find).coordinators[0].error_code == 0
        init = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
        producer = wire.call(InitProducerIdResponse, 4, init)
        batch = encode_batch(
            [(Millis(time.time_ns() // 1_000_000 - HOUR_MS), None, b"late", ())],
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        late = ProduceRequest(transactional_id, -1, 10_000, [ProduceTopic(topic, None, [(1, memoryview(batch))])])
        assert wire.produce(11, late).topics[0].partitions[0].error_code == ErrorCode.NONE
        return producer.producer_id


def test_hanging_transaction_is_found_and_ended(lenient_broker: Broker, transactional_id: str) -> None:
    """A hanging transaction is listed, and `klamm txn abort` ends it, so that read_committed consumers read on."""
    klamm = Command(lenient_broker.bootstrap_servers)
    topic = f"topic-{uuid.uuid4().hex[:12]}"
    klamm.done("topic", "create", topic, "-p", "2")
    producer_id = hang(lenient_broker, topic, transactional_id)
    ordinary = begin(lenient_broker, f"{transactional_id}-2", topic)
    ordinary.commit_transaction(PATIENCE_S)
    consumer = Consumer({"bootstrap.servers": lenient_broker.bootstrap_servers, "group.id": transactional_id})
    consumer.assign([TopicPartition(topic, 1, 0)])
    assert consumer.poll(1) is None

    (row,) = klamm.rows("txn", "list", "--hanging", "--topic", topic)
    assert (row["topic"], row["partition"], row["start_offset"]) == (topic, 1, 0)
    assert row["producer_id"] == producer_id
    assert row["idle_ms"] >= HOUR_MS
    assert klamm.rows("txn", "list", "--hanging", "--topic", f"{topic}:0") == []
    assert klamm.rows("txn", "list", "--hanging", "--topic", topic, "--longer-than", "2h") == []
    assert row in [{**each, "idle_ms": row["idle_ms"]} for each in klamm.rows("txn", "list", "--hanging")]

    (shown,) = klamm.rows("txn", "abort", f"{topic}:1", "0")
    assert (shown["producer_id"], shown["state"]) == (producer_id, "hanging")
    assert "nothing was changed" in klamm.done("txn", "abort", f"{topic}:1", "0")
    assert klamm.rows("txn", "list", "--hanging", "--topic", topic) != []
    assert "aborted" in klamm.done("txn", "abort", f"{topic}:1", "0", "--execute")
    assert klamm.rows("txn", "list", "--hanging", "--topic", topic) == []
    message = consumer.poll(PATIENCE_S)
    assert message is not None
    assert message.value() == b"a"
    consumer.close()


def test_open_transaction_that_is_known_does_not_hang(lenient_broker: Broker, transactional_id: str) -> None:
    """An open transaction is not listed as hanging, because its coordinator will end it."""
    klamm = Command(lenient_broker.bootstrap_servers)
    topic = f"topic-{uuid.uuid4().hex[:12]}"
    klamm.done("topic", "create", topic, "-p", "2")
    producer = begin(lenient_broker, transactional_id, topic)
    assert klamm.rows("txn", "list", "--hanging", "--topic", topic, "--longer-than", "0s") == []
    producer.abort_transaction(PATIENCE_S)


def test_transaction_that_its_coordinator_will_end_is_not_aborted_by_mistake(
    broker: Broker, klamm: Command, topic: str, transactional_id: str
) -> None:
    """Aborting a transaction that its coordinator knows needs --force: otherwise a later commit would lose the
    partition's records."""
    producer = begin(broker, transactional_id, topic)
    refused = klamm("txn", "abort", f"{topic}:1", "0", "--execute")
    assert (refused.status, refused.stdout) == (1, "")
    assert f"'{transactional_id}' is Ongoing" in refused.stderr
    assert "--force" in refused.stderr
    (shown,) = klamm.rows("txn", "abort", f"{topic}:1", "0", "--force")
    assert (shown["transactional_id"], shown["state"]) == (transactional_id, "Ongoing")
    producer.commit_transaction(PATIENCE_S)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": transactional_id})
    consumer.assign([TopicPartition(topic, 1, 0)])
    message = consumer.poll(PATIENCE_S)
    assert message is not None
    assert message.value() == b"a"
    consumer.close()


def test_force_aborts_a_transaction_that_its_coordinator_will_end(
    broker: Broker, klamm: Command, topic: str, transactional_id: str
) -> None:
    """--force aborts the transaction in one partition; the coordinator's state does not change."""
    producer = begin(broker, transactional_id, topic)
    assert "aborted" in klamm.done("txn", "abort", f"{topic}:1", "0", "--force", "--execute")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": transactional_id})
    consumer.assign([TopicPartition(topic, 1, 0)])
    assert consumer.poll(1) is None
    (described,) = klamm.rows("txn", "describe", transactional_id)
    assert described["state"] == "Ongoing"
    producer.abort_transaction(PATIENCE_S)
    consumer.close()
