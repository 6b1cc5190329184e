"""Real clients at work on three brokers: `klamm serve --workers 3`, one of which is killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from tests.interop.client_process import ClientProcess
from tests.interop.dropped_joins import kafka_python_may_drop_a_join
from tests.interop.java_client import JavaClient
from tests.interop.record_scenarios import PARTITIONS, places, spread
from tests.support.workers import Workers

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    """Runs three workers."""
    started = Workers(tmp_path_factory.mktemp("workers"), "--workers", "3")
    yield started
    assert started.stop() == 0


@pytest.fixture(scope="module")
def bootstrap(workers: Workers) -> str:
    """The address of one worker: clients learn the others from its metadata."""
    addresses = workers.ready(3)
    return addresses.split(",")[0]


class WorkersScenarios:
    """What every client must do with several brokers. A suite defines the fixture `new_client`."""

    joining: ClassVar[dict[str, Any]] = {}

    def test_members_read_from_all_workers_and_outlive_one(
        self, client: ClientProcess, workers: Workers, topic: str, group: str
    ) -> None:
        """Two members share a topic whose partitions lie on three workers. A worker is killed, with its partitions and
        perhaps the group's coordinator: when it is back, members and producer go on, and nothing is lost."""
        first = client.join("first", group, topic, **self.joining)
        second = client.join("second", group, topic, **self.joining)
        for member in (first, second):
            member.wait_until(lambda m: len(m.assignment or []) == PARTITIONS // 2, "owns half")
        client.call("produce", topic=topic, records=spread(10))
        client.wait_until(lambda: first.places | second.places == places(10), lambda: "not everything arrived")
        workers.kill(2)
        client.call("produce", topic=topic, records=spread(10))
        client.wait_until(lambda: first.places | second.places == places(20), lambda: "records were lost")
        first.leave()
        second.leave()


class TestConfluent(WorkersScenarios):
    """librdkafka, in the classic protocol."""

    @pytest.fixture
    def new_client(self, new_python_client: Callable[[str], ClientProcess]) -> Callable[[], ClientProcess]:
        """Returns a function that starts a process with confluent-kafka."""
        return lambda: new_python_client("confluent_kafka")


class TestConfluentConsumerProtocol(TestConfluent):
    """librdkafka, in the consumer protocol."""

    joining: ClassVar[dict[str, Any]] = {"group_protocol": "consumer"}


@kafka_python_may_drop_a_join
class TestKafkaPython(WorkersScenarios):
    """kafka-python."""

    @pytest.fixture
    def new_client(self, new_python_client: Callable[[str], ClientProcess]) -> Callable[[], ClientProcess]:
        """Returns a function that starts a process with kafka-python."""
        return lambda: new_python_client("kafka_python")


class TestAiokafka(WorkersScenarios):
    """aiokafka."""

    @pytest.fixture
    def new_client(self, new_python_client: Callable[[str], ClientProcess]) -> Callable[[], ClientProcess]:
        """Returns a function that starts a process with aiokafka."""
        return lambda: new_python_client("aiokafka")


@pytest.mark.java
class TestJava(WorkersScenarios):
    """Apache Kafka's Java clients, in the classic protocol."""

    @pytest.fixture
    def new_client(self, java_client_classpath: str, bootstrap: str) -> Callable[[], ClientProcess]:
        """Returns a function that starts a JVM with the Java clients."""
        return lambda: JavaClient(java_client_classpath, bootstrap)


@pytest.mark.java
class TestJavaConsumerProtocol(TestJava):
    """Apache Kafka's Java clients, in the consumer protocol."""

    joining: ClassVar[dict[str, Any]] = {"group_protocol": "consumer"}


@pytest.mark.node
class TestKafkajs(WorkersScenarios):
    """kafkajs."""

    @pytest.fixture
    def new_client(self, new_node_client: Callable[[], ClientProcess]) -> Callable[[], ClientProcess]:
        """Returns a function that starts a process with kafkajs."""
        return new_node_client
