"""What every suite of real clients shares: a klamm broker, fresh topics, and the jars of Apache Kafka.

With KLAMM_INTEROP_BOOTSTRAP set to an address, the suites run against that broker instead, which is how the tests
themselves are tried against Apache Kafka; tests that restart the broker are skipped then.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.interop.broker_process import BrokerProcess, ExternalBroker
from tests.interop.java_client import JavaClient, compile_client

# Sessions of three seconds instead of Kafka's least of six: the tests wait for them to run out.
BROKER_CONFIG = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000"}


def toolchain_is_missing(toolchain: str, message: str) -> NoReturn:
    """Skips the test, or fails it where KLAMM_REQUIRE_TOOLCHAINS says that the toolchain is there."""
    if toolchain in os.environ.get("KLAMM_REQUIRE_TOOLCHAINS", "").split():
        pytest.fail(f"{toolchain} is required here: {message}")
    pytest.skip(message)


@pytest.fixture(scope="session")
def _broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess | ExternalBroker]:
    if external := os.environ.get("KLAMM_INTEROP_BOOTSTRAP"):
        yield ExternalBroker(external)
        return
    process = BrokerProcess(tmp_path_factory.mktemp("klamm"), BROKER_CONFIG)
    yield process
    process.stop()
    assert "Traceback" not in process.log(), process.log()[-4000:]


@pytest.fixture
def broker(_broker: BrokerProcess | ExternalBroker) -> Iterator[BrokerProcess | ExternalBroker]:
    """The broker that all suites share; a test that leaves it dead gets it started again for the next one."""
    yield _broker
    if isinstance(_broker, BrokerProcess) and not _broker.is_running:
        _broker.start()


@pytest.fixture
def restartable_broker(broker: BrokerProcess | ExternalBroker) -> BrokerProcess:
    """The same broker, for tests that restart or kill it."""
    if not isinstance(broker, BrokerProcess):
        pytest.skip("a broker that somebody else runs can't be restarted")
    return broker


@pytest.fixture
def bootstrap(broker: BrokerProcess | ExternalBroker) -> str:
    """The broker's address, as every client takes it."""
    return broker.bootstrap_servers


@pytest.fixture
def topic(bootstrap: str) -> str:
    """A fresh topic with six partitions."""
    name = f"interop-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, 6, 1)])[name].result(30)
    return name


@pytest.fixture
def group() -> str:
    """The name of a group that nobody has used."""
    return f"group-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def kafka_classpath(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Apache Kafka's broker, clients and tools, joined by colons; skips when there is no JDK or no way to the jars."""
    if shutil.which("javac") is None:
        toolchain_is_missing("java", "no javac on PATH: install a JDK 17 or later")
    if given := os.environ.get("KLAMM_KAFKA_CLASSPATH"):
        return given
    if shutil.which("mvn") is None:
        toolchain_is_missing("java", "no mvn on PATH: install Maven, or set KLAMM_KAFKA_CLASSPATH")
    pom = Path(__file__).parent / "java" / "pom.xml"
    output = tmp_path_factory.mktemp("maven") / "classpath.txt"
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:build-classpath", f"-Dmdep.outputFile={output}"]
    for attempt in ([*command, "-o"], command):
        completed = subprocess.run(attempt, capture_output=True, text=True, check=False)
        if completed.returncode == 0:
            return output.read_text(encoding="utf-8").strip()
    toolchain_is_missing("java", f"Maven could not find Apache Kafka's jars: {completed.stdout[-500:]}")


@pytest.fixture(scope="session")
def java_client_classpath(kafka_classpath: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path with which the Java clients of these tests run."""
    return compile_client(kafka_classpath, tmp_path_factory.mktemp("java"))


@pytest.fixture
def start_java(java_client_classpath: str, bootstrap: str) -> Iterator[Callable[[], JavaClient]]:
    """Starts JVMs with Java clients, for tests that kill or pause them; all are gone after the test."""
    clients: list[JavaClient] = []

    def start() -> JavaClient:
        clients.append(JavaClient(java_client_classpath, bootstrap))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


@pytest.fixture
def java(start_java: Callable[[], JavaClient]) -> JavaClient:
    """A JVM with Java clients."""
    return start_java()
