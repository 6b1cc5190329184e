"""Transactions over the partitions of three brokers, while the network from one broker to another is cut.

The brokers are processes (`klamm serve --workers 3`), and a proxy stands on every link between them.
"""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.links import KINDS, Cut, Links
from tests.support.patience import Limit
from tests.support.wire import Wire
from tests.support.workers import Workers

from klamm.protocol.errors import ErrorCode
from klamm.protocol.produce import ProduceRequest, ProduceTopic
from klamm.protocol.records import encode_batch
from klamm.protocol.schema.end_txn_request import EndTxnRequest
from klamm.protocol.schema.end_txn_response import EndTxnResponse
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse
from klamm.protocol.schema.init_producer_id_request import InitProducerIdRequest
from klamm.protocol.schema.init_producer_id_response import InitProducerIdResponse
from klamm.protocol.schema.list_transactions_request import ListTransactionsRequest
from klamm.protocol.schema.list_transactions_response import ListTransactionsResponse
from klamm.protocol.types import Millis

PATIENCE_S: Final = 60
PARTITIONS: Final = 6
_CONFIG = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    # How long brokers wait for each other.
    "request.timeout.ms": "1000",
}
_TRANSACTION: Final = 1
_VERSION: Final = 12
"""Of Produce: the broker of the partition adds it to the transaction."""
_LINKS: Final = list(itertools.permutations((1, 2, 3), 2))
CUTS: Final = [*([link] for link in _LINKS), *([(one, other), (other, one)] for one, other in _LINKS if one < other)]
"""The links that are cut together."""


class Brokers:
    """Three workers, each behind a proxy."""

    def __init__(self, workers: Workers, links: Links) -> None:
        self.links = links
        self.bootstrap_servers = links.lead_to(workers.ready(3))
        self.topic = ""
        self.leaders: list[int] = []
        self.create_topic()  # the first one waits for the workers
        new_producer(self, "the first")  # creates the topic of the coordinators
        for broker in (1, 2, 3):
            new_producer(self, self.coordinated_by(broker))  # waits until the broker coordinates

    def address(self, broker: int) -> str:
        return self.bootstrap_servers.split(",")[broker - 1]

    def create_topic(self) -> None:
        """Creates a topic whose partitions lie on all brokers."""
        self.topic = f"topic-{uuid.uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        admin.create_topics([NewTopic(self.topic, PARTITIONS, 1)])[self.topic].result(PATIENCE_S)
        for broker in (1, 2, 3):  # hears of the topic a little later, unless it has created it
            wait(lambda: set(self._leaders(broker)) == {1, 2, 3})  # noqa: B023 (called in this turn)
        self.leaders = self._leaders(1)

    def _leaders(self, broker: int) -> list[int]:
        admin = AdminClient({"bootstrap.servers": self.address(broker)})
        found = admin.list_topics(self.topic, PATIENCE_S).topics[self.topic].partitions
        return [found[index].leader for index in sorted(found)]

    def coordinated_by(self, broker: int) -> str:
        """Returns a new transactional id whose coordinator is that broker."""
        limit = Limit(PATIENCE_S)
        with Wire(self.address(1)) as wire:
            while True:
                key = f"id-{uuid.uuid4().hex[:8]}"
                request = FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=[key])
                (found,) = wire.call(FindCoordinatorResponse, 4, request).coordinators
                if found.error_code != ErrorCode.NONE:  # another broker has just created the topic of the coordinators
                    assert not limit.is_over, ErrorCode(found.error_code)
                    time.sleep(0.02)
                elif found.node_id == broker:
                    return key

    def state_of(self, coordinator: int, transactional_id: str) -> str:
        with Wire(self.address(coordinator)) as wire:
            response = wire.call(ListTransactionsResponse, 1, ListTransactionsRequest(duration_filter=-1))
        return {each.transactional_id: each.transaction_state for each in response.transaction_states}[transactional_id]

    def wait_for_state(self, coordinator: int, transactional_id: str, state: str) -> None:
        wait(lambda: self.state_of(coordinator, transactional_id) == state)


def wait(is_true: Callable[[], bool]) -> None:
    limit = Limit(PATIENCE_S)
    while not is_true():
        assert not limit.is_over
        time.sleep(0.02)


def new_producer(brokers: Brokers, transactional_id: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": brokers.bootstrap_servers,
            "transactional.id": transactional_id,
            "retry.backoff.ms": 50,
            "log_level": 0,
        }
    )
    producer.init_transactions(PATIENCE_S)
    return producer


def begin(brokers: Brokers, producer: Producer, value: str) -> None:
    """Begins a transaction, and writes a record into each partition."""
    producer.begin_transaction()
    for index in range(PARTITIONS):
        producer.produce(brokers.topic, value, partition=index)
    assert producer.flush(PATIENCE_S) == 0


class Steps:
    """A transactional producer of one partition whose requests the test sends one by one."""

    def __init__(self, brokers: Brokers, coordinator: int, leader: int) -> None:
        self._brokers = brokers
        self._index = brokers.leaders.index(leader)
        self._leader = leader
        self._coordinator = coordinator
        self.transactional_id = brokers.coordinated_by(coordinator)
        with Wire(brokers.address(coordinator)) as wire:
            request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=60_000)
            self._id = wire.call(InitProducerIdResponse, 4, request)
        assert self._id.error_code == ErrorCode.NONE

    def produce(self, value: bytes) -> ErrorCode:
        """Sends the first record of the transaction to the leader of its partition, once."""
        batch = encode_batch(
            [(Millis(time.time_ns() // 1_000_000), None, value, ())],
            producer_id=self._id.producer_id,
            producer_epoch=self._id.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        topics = [ProduceTopic(self._brokers.topic, None, [(self._index, memoryview(batch))])]
        with Wire(self._brokers.address(self._leader)) as wire:
            answer = wire.produce(_VERSION, ProduceRequest(self.transactional_id, -1, 10_000, topics))
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    def commit(self) -> None:
        """Ends the transaction."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._id.producer_id,
            producer_epoch=self._id.producer_epoch,
            committed=True,
        )
        with Wire(self._brokers.address(self._coordinator)) as wire:
            assert wire.call(EndTxnResponse, 5, request).error_code == ErrorCode.NONE


class Reader:
    """A consumer that reads committed records of all partitions."""

    def __init__(self, brokers: Brokers) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": brokers.bootstrap_servers,
                "group.id": f"reader-{uuid.uuid4().hex}",
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(brokers.topic, index, 0) for index in range(PARTITIONS)])
        self.found: Counter[tuple[int, str]] = Counter()

    def wait_for(self, expected: set[tuple[int, str]]) -> None:
        """Reads until each of the records has been read."""
        limit = Limit(PATIENCE_S)
        while not expected <= self.found.keys():
            assert not limit.is_over, f"{expected - self.found.keys()} are missing"
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                value, index = message.value(), message.partition()
                assert value is not None
                assert index is not None
                self.found[index, bytes(value).decode()] += 1

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Runs the brokers for all tests of this file."""
    with Links(3) as links:
        settings = [word for key, value in _CONFIG.items() for word in ("-X", f"{key}={value}")]
        advertised = ("-X", f"advertised.listeners=PLAINTEXT://127.0.0.1:{links.port}")
        workers = Workers(tmp_path_factory.mktemp("workers"), "--workers", "3", *settings, *advertised)
        try:
            yield Brokers(workers, links)
            assert workers.stop() == 0
        finally:
            workers.end()


@pytest.fixture
def brokers(running: Brokers) -> Iterator[Brokers]:
    """Creates a topic, and mends what a test has cut."""
    running.create_topic()
    yield running
    running.links.mend()


@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_between_a_coordinator_and_a_leader(brokers: Brokers, kind: Cut) -> None:
    """I12, I14: broker 1 can't reach broker 2, which reaches broker 1. Commits and aborts return, and end where the
    markers arrive. Other coordinators' transactions end meanwhile. Broker 1, which can't ask broker 2 about a producer,
    answers the retriable code that Kafka has for it, and waits no longer than `request.timeout.ms`. After the cut all
    transactions end, each committed record is read once, and no aborted one."""
    committing, aborting, elsewhere = (brokers.coordinated_by(each) for each in (1, 1, 3))
    first, second, third = (new_producer(brokers, each) for each in (committing, aborting, elsewhere))
    asked = Steps(brokers, coordinator=2, leader=1)
    begin(brokers, first, "committed")
    begin(brokers, second, "aborted")
    brokers.links.cut(1, 2, kind)
    before = brokers.links.struck(1, 2)
    first.commit_transaction(PATIENCE_S)
    second.abort_transaction(PATIENCE_S)
    begin(brokers, third, "elsewhere")
    third.commit_transaction(PATIENCE_S)
    brokers.wait_for_state(3, elsewhere, "CompleteCommit")
    assert asked.produce(b"asked") is ErrorCode.NOT_ENOUGH_REPLICAS
    wait(lambda: brokers.links.struck(1, 2) > before)
    reader = Reader(brokers)
    reachable = {index for index, leader in enumerate(brokers.leaders) if leader != 2}
    reader.wait_for({(index, value) for index in reachable for value in ("committed", "elsewhere")})
    assert brokers.state_of(1, committing) == "PrepareCommit"
    assert brokers.state_of(1, aborting) == "PrepareAbort"
    brokers.links.mend()
    brokers.wait_for_state(1, committing, "CompleteCommit")
    brokers.wait_for_state(1, aborting, "CompleteAbort")
    wait(lambda: asked.produce(b"asked") is ErrorCode.NONE)
    asked.commit()
    begin(brokers, first, "after the cut")
    first.commit_transaction(PATIENCE_S)
    expected = {(brokers.leaders.index(1), "asked")}
    expected |= {(index, each) for index in range(PARTITIONS) for each in ("committed", "elsewhere", "after the cut")}
    reader.wait_for(expected)
    reader.close()
    assert reader.found == Counter(expected)


class Writer(threading.Thread):
    """A producer whose transactions write to all partitions, and abort every third time, until it is stopped."""

    def __init__(self, brokers: Brokers, coordinator: int) -> None:
        super().__init__(daemon=True)
        self._brokers = brokers
        self._name = f"writer-{coordinator}"
        self._producer = new_producer(brokers, brokers.coordinated_by(coordinator))
        self._is_stopping = threading.Event()
        self.committed: list[str] = []
        self.has_ended = False

    def run(self) -> None:
        for number in itertools.count(1):
            is_last = self._is_stopping.is_set()
            value = f"{self._name}-{number}"
            begin(self._brokers, self._producer, value)
            if number % 3 or is_last:  # a reader of the last one has read past all aborted records
                self._producer.commit_transaction(PATIENCE_S)
                self.committed.append(value)
            else:
                self._producer.abort_transaction(PATIENCE_S)
            if is_last:
                self.has_ended = True
                return

    def stop(self) -> None:
        """Waits for a last transaction, and asserts that none has failed."""
        self._is_stopping.set()
        self.join(PATIENCE_S)
        assert self.has_ended


@pytest.mark.parametrize("turn", range(len(KINDS)))
def test_cuts_of_every_link_in_turn(brokers: Brokers, turn: int) -> None:
    """I11, I12: each link is cut once, and each pair of brokers in both directions, while transactions of all
    coordinators run over all partitions. Transactions of the coordinator that the cut does not concern go on meanwhile.
    A reader gets each record of a committed transaction once, and none of an aborted one. With each turn a cut is
    of the next kind, so the turns try every kind of every cut."""
    writers = {broker: Writer(brokers, broker) for broker in (1, 2, 3)}
    for writer in writers.values():
        writer.start()
    for links, kind in zip(CUTS, itertools.islice(itertools.cycle(KINDS), turn, None), strict=False):
        before = {link: brokers.links.struck(*link) for link in links}
        for link in links:
            brokers.links.cut(*link, kind)
        # Of two directions one may stay without a request: what the other one holds stops both writers.
        wait(lambda: any(brokers.links.struck(*link) > before[link] for link in links))  # noqa: B023 (called in this turn)
        (other,) = {1, 2, 3} - set(links[0])
        count = len(writers[other].committed)
        wait(lambda: len(writers[other].committed) >= count + 2)  # noqa: B023
        brokers.links.mend()
    for writer in writers.values():
        writer.stop()
    reader = Reader(brokers)
    committed = {value for writer in writers.values() for value in writer.committed}
    expected = {(index, value) for index in range(PARTITIONS) for value in committed}
    reader.wait_for(expected)
    reader.close()
    assert reader.found == Counter(expected)
