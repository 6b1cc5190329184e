"""Fixtures that all suites of real clients share: a klamm broker, fresh topics, and the jars of Apache Kafka.

If KLAMM_INTEROP_BOOTSTRAP contains an address, the suites run against the broker at that address. This checks the tests
themselves against Apache Kafka; tests that restart the broker are then skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.interop.broker_process import BrokerProcess, ExternalBroker
from tests.interop.client_process import ClientProcess
from tests.interop.java_client import JavaClient, compile_client
from tests.support import kafka_broker
from tests.support.alone import alone
from tests.support.toolchains import toolchain_is_missing

pytest.register_assert_rewrite(
    "tests.interop.record_scenarios",
    "tests.interop.group_scenarios",
    "tests.interop.consumer_protocol_scenarios",
    "tests.interop.fetching_scenarios",
    "tests.interop.fetch_limit_scenarios",
    "tests.interop.churn_scenarios",
    "tests.interop.churn_life",
)

# Session timeouts of two or three seconds instead of Kafka's minimum of six, because the tests wait for them to expire.
# Members of the consumer protocol learn of changes with their heartbeats, so the heartbeat interval is short.
BROKER_CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.min.session.timeout.ms": "1000",
}


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
    """The broker that all suites share. If a test leaves it stopped, the fixture starts it again for the next test."""
    yield _broker
    if isinstance(_broker, BrokerProcess) and not _broker.is_running:
        _broker.start()


@pytest.fixture
def restartable_broker(broker: BrokerProcess | ExternalBroker) -> BrokerProcess:
    """The shared broker, for tests that restart or kill it."""
    if not isinstance(broker, BrokerProcess):
        pytest.skip("a broker that somebody else runs can't be restarted")
    return broker


@pytest.fixture
def bootstrap(broker: BrokerProcess | ExternalBroker) -> str:
    """The broker's address, in the form that every client accepts."""
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
    """The name of a group that no test has used."""
    return f"group-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def new_python_client(bootstrap: str, tmp_path: Path) -> Callable[[str], ClientProcess]:
    """Returns a function that starts a Python client by the name of its driver (tests/interop/drivers)."""

    def start(name: str) -> ClientProcess:
        command = [sys.executable, "-m", f"tests.interop.drivers.drive_{name}", bootstrap]
        errors = tmp_path / f"{uuid.uuid4().hex}.log"
        return ClientProcess(command, folder=Path(__file__).parents[2], errors=errors)

    return start


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """The folder with kafkajs, installed once for each version of node/package.json; skips the tests without npm."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        toolchain_is_missing("node", "no node or no npm on PATH: install Node.js 18 or later")
    source = Path(__file__).parent / "node" / "package.json"
    modules = source.with_name("node_modules")
    installed = modules / "package.json"
    with alone("npm"):
        if not installed.is_file() or installed.read_bytes() != source.read_bytes():
            command = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
            completed = subprocess.run(command, cwd=source.parent, capture_output=True, text=True, check=False)
            if completed.returncode != 0:
                toolchain_is_missing("node", f"npm could not install kafkajs: {completed.stderr[-500:]}")
            shutil.copyfile(source, installed)
    return modules


@pytest.fixture
def new_node_client(node_modules: Path, bootstrap: str, tmp_path: Path) -> Callable[[], ClientProcess]:
    """Returns a function that starts a process with kafkajs."""
    command = ["node", str(Path(__file__).parent / "node" / "client.js"), bootstrap]
    environment = os.environ | {"NODE_PATH": str(node_modules)}
    return lambda: ClientProcess(command, environment=environment, errors=tmp_path / f"{uuid.uuid4().hex}.log")


@pytest.fixture
def start_client(new_client: Callable[[], ClientProcess]) -> Iterator[Callable[[], ClientProcess]]:
    """Starts processes of the suite's client (its fixture `new_client`), and ends all of them after the test."""
    clients: list[ClientProcess] = []

    def start() -> ClientProcess:
        clients.append(new_client())
        return clients[-1]

    yield start
    for client in clients:
        client.close()


@pytest.fixture
def client(start_client: Callable[[], ClientProcess]) -> ClientProcess:
    """A process of the suite's client."""
    return start_client()


@pytest.fixture(scope="session")
def kafka_classpath() -> str:
    """The class path of Apache Kafka's broker, clients and tools; skips the tests without a JDK or without the jars."""
    try:
        return kafka_broker.kafka_classpath()
    except kafka_broker.KafkaUnavailable as error:
        toolchain_is_missing("java", str(error))


@pytest.fixture(scope="session")
def java_client_classpath(kafka_classpath: str) -> str:
    """The class path for the Java clients of these tests."""
    return compile_client(kafka_classpath)


@pytest.fixture
def java(java_client_classpath: str, bootstrap: str) -> Iterator[JavaClient]:
    """A JVM process with Java clients."""
    client = JavaClient(java_client_classpath, bootstrap)
    yield client
    client.close()
