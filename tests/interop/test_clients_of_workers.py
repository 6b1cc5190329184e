"""Real clients at work on three brokers: `klamm serve --workers 3`, one of which is killed."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from tests.interop.client_process import ClientProcess, Member
from tests.interop.dropped_joins import kafka_python_may_drop_a_join
from tests.interop.java_client import JavaClient
from tests.interop.record_scenarios import PARTITIONS, places, spread
from tests.support.patience import Limit
from tests.support.wire import Wire
from tests.support.workers import Workers

from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse

pytestmark = pytest.mark.timeout(180)

PATIENCE_S: Final = 60
_PAUSE_S: Final = 0.2
_INTERNAL_PARTITIONS: Final = (
    *("-X", "offsets.topic.num.partitions=3"),
    *("-X", "transaction.state.log.num.partitions=3"),
)
"""With the test profile's one partition, one worker would coordinate everything."""


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    """Runs three workers, each of which coordinates some groups and transactions."""
    started = Workers(tmp_path_factory.mktemp("workers"), "--workers", "3", *_INTERNAL_PARTITIONS)
    yield started
    assert started.stop() == 0


@pytest.fixture(scope="module")
def bootstrap(workers: Workers) -> str:
    """The addresses of all workers: a client that starts while one of them is killed asks another."""
    return workers.ready(3)


def _wait_for_leaders(bootstrap: str, topic: str, leaders: set[int]) -> None:
    """Waits until each worker knows these leaders of a topic that one worker has created."""
    limit = Limit(PATIENCE_S)
    for address in bootstrap.split(","):
        admin = AdminClient({"bootstrap.servers": address})
        while (found := _leaders(admin, topic)) != leaders:
            assert not limit.is_over, f"{address} knows the leaders {found}"
            time.sleep(_PAUSE_S)


def _leaders(admin: AdminClient, topic: str) -> set[int]:
    found = admin.list_topics(topic, PATIENCE_S).topics[topic]
    return {partition.leader for partition in found.partitions.values()}


def _coordinator(bootstrap: str, group: str) -> int:
    with Wire(bootstrap.split(",", maxsplit=1)[0]) as wire:
        (found,) = wire.call(FindCoordinatorResponse, 4, FindCoordinatorRequest(coordinator_keys=[group])).coordinators
    assert found.error_code == ErrorCode.NONE
    return int(found.node_id)


def _committed(bootstrap: str, group: str, topic: str) -> list[int]:
    """Returns the group's committed offset of each partition, from its coordinator, which may be loading the group."""
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, index) for index in range(PARTITIONS)])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    limit = Limit(PATIENCE_S)
    while True:
        try:
            found = admin.list_consumer_group_offsets([wanted])[group].result(PATIENCE_S)
        except KafkaException:
            if limit.is_over:
                raise
            time.sleep(_PAUSE_S)
        else:
            return [each.offset for each in found.topic_partitions or []]


def _commit(members: Sequence[Member], bootstrap: str, group: str, topic: str, offset: int) -> None:
    """Makes the members commit until the group has this offset in each partition: one may be joining again. No commit
    is under way when this returns."""
    limit = Limit(PATIENCE_S)
    while _committed(bootstrap, group, topic) != [offset] * PARTITIONS:
        assert not limit.is_over, [member.names() for member in members]
        before = [_ended_commits(member) for member in members]
        for member in members:
            member.commit()
        for member, count in zip(members, before, strict=True):
            member.wait_until(lambda m, count=count: _ended_commits(m) > count, "is told how its commit went")  # type: ignore[misc]
        time.sleep(_PAUSE_S)


def _ended_commits(member: Member) -> int:
    names = member.names()
    return names.count("committed") + names.count("refused")


class WorkersScenarios:
    """What every client must do with several brokers. A suite defines the fixture `new_client`."""

    joining: ClassVar[dict[str, Any]] = {}

    def test_members_read_from_all_workers_and_outlive_their_coordinator(
        self, client: ClientProcess, workers: Workers, bootstrap: str, topic: str, group: str
    ) -> None:
        """Two members share a topic whose partitions lie on three workers. The worker that coordinates the group is
        killed, with its partitions: when it is back, it has the committed offsets, members and producer go on, and
        nothing is lost."""
        _wait_for_leaders(bootstrap, topic, {1, 2, 3})
        members = [
            client.join(name, group, topic, enable_auto_commit="false", **self.joining) for name in ("first", "second")
        ]
        for member in members:
            member.wait_until(lambda m: len(m.assignment or []) == PARTITIONS // 2, "owns half")

        def have_read(count: int) -> bool:
            return members[0].places | members[1].places == places(count)

        client.call("produce", topic=topic, records=spread(10))
        client.wait_until(lambda: have_read(10), lambda: "not everything arrived")
        _commit(members, bootstrap, group, topic, 10)
        workers.kill(_coordinator(bootstrap, group))
        client.call("produce", topic=topic, records=spread(10))
        client.wait_until(lambda: have_read(20), lambda: "records were lost")
        assert _committed(bootstrap, group, topic) == [10] * PARTITIONS
        _commit(members, bootstrap, group, topic, 20)
        for member in members:
            member.leave()


class TransactionScenarios:
    """What every client with a transactional producer must do with several brokers."""

    def test_transactions_over_all_workers(self, client: ClientProcess, bootstrap: str, topic: str) -> None:
        """Each transaction writes to the partitions of three workers. Each of them shows the records of the committed
        ones, and none of the aborted one."""
        _wait_for_leaders(bootstrap, topic, {1, 2, 3})
        transactions: list[list[dict[str, Any]]] = [
            [{"partition": index, "value": f"{number}-{index}"} for index in range(PARTITIONS)] for number in range(3)
        ]
        name = f"writer-{uuid.uuid4().hex[:8]}"
        client.call("transact", topic=topic, transactions=transactions, **{"transactional.id": name})
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": name, "isolation.level": "read_committed"})
        consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])
        committed = [record["value"] for records in (transactions[0], transactions[2]) for record in records]
        # The last transaction lies behind the aborted one in each partition.
        values = [(message.value() or b"").decode() for message in consumer.consume(len(committed), PATIENCE_S)]
        consumer.close()
        assert sorted(values) == sorted(committed)


class Confluent:
    """librdkafka."""

    @pytest.fixture
    def new_client(self, new_python_client: Callable[[str], ClientProcess]) -> Callable[[], ClientProcess]:
        """Returns a function that starts a process with confluent-kafka."""
        return lambda: new_python_client("confluent_kafka")


class TestConfluent(Confluent, WorkersScenarios, TransactionScenarios):
    """librdkafka, in the classic protocol."""


class TestConfluentConsumerProtocol(Confluent, WorkersScenarios):
    """librdkafka, in the consumer protocol."""

    joining: ClassVar[dict[str, Any]] = {"group_protocol": "consumer"}


@kafka_python_may_drop_a_join
class TestKafkaPython(WorkersScenarios, TransactionScenarios):
    """kafka-python."""

    @pytest.fixture
    def new_client(self, new_python_client: Callable[[str], ClientProcess]) -> Callable[[], ClientProcess]:
        """Returns a function that starts a process with kafka-python."""
        return lambda: new_python_client("kafka_python")


class TestAiokafka(WorkersScenarios, TransactionScenarios):
    """aiokafka."""

    @pytest.fixture
    def new_client(self, new_python_client: Callable[[str], ClientProcess]) -> Callable[[], ClientProcess]:
        """Returns a function that starts a process with aiokafka."""
        return lambda: new_python_client("aiokafka")


class Java:
    """Apache Kafka's Java clients."""

    @pytest.fixture
    def new_client(self, java_client_classpath: str, bootstrap: str) -> Callable[[], ClientProcess]:
        """Returns a function that starts a JVM with the Java clients."""
        return lambda: JavaClient(java_client_classpath, bootstrap)


@pytest.mark.java
class TestJava(Java, WorkersScenarios, TransactionScenarios):
    """Apache Kafka's Java clients, in the classic protocol."""


@pytest.mark.java
class TestJavaConsumerProtocol(Java, WorkersScenarios):
    """Apache Kafka's Java clients, in the consumer protocol."""

    joining: ClassVar[dict[str, Any]] = {"group_protocol": "consumer"}


@pytest.mark.node
class TestKafkajs(WorkersScenarios, TransactionScenarios):
    """kafkajs."""

    @pytest.fixture
    def new_client(self, new_node_client: Callable[[], ClientProcess]) -> Callable[[], ClientProcess]:
        """Returns a function that starts a process with kafkajs."""
        return new_node_client
