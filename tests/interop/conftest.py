"""What every suite of real clients shares: a klamm broker, fresh topics, and the jars of Apache Kafka.

With KLAMM_INTEROP_BOOTSTRAP set to an address, the suites run against that broker instead, which is how the tests
themselves are tried against Apache Kafka; tests that restart the broker are skipped then.
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

# Sessions of two or three seconds instead of Kafka's least of six: the tests wait for them to run out. Members of the
# consumer protocol hear of changes when they beat.
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


@pytest.fixture
def new_python_client(bootstrap: str, tmp_path: Path) -> Callable[[str], ClientProcess]:
    """Starts a process that drives a Python client, by the name of its driver (tests/interop/drivers)."""

    def start(name: str) -> ClientProcess:
        command = [sys.executable, "-m", f"tests.interop.drivers.drive_{name}", bootstrap]
        errors = tmp_path / f"{uuid.uuid4().hex}.log"
        return ClientProcess(command, folder=Path(__file__).parents[2], errors=errors)

    return start


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """The folder with kafkajs, installed once for each version of node/package.json; skips where there is no npm."""
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
    """Starts a process that drives kafkajs."""
    command = ["node", str(Path(__file__).parent / "node" / "client.js"), bootstrap]
    environment = os.environ | {"NODE_PATH": str(node_modules)}
    return lambda: ClientProcess(command, environment=environment, errors=tmp_path / f"{uuid.uuid4().hex}.log")


@pytest.fixture
def start_client(new_client: Callable[[], ClientProcess]) -> Iterator[Callable[[], ClientProcess]]:
    """Starts processes of the suite's client (its fixture `new_client`); all are gone after the test."""
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
    """Apache Kafka's broker, clients and tools, joined by colons; skips when there is no JDK or no way to the jars."""
    try:
        return kafka_broker.kafka_classpath()
    except kafka_broker.KafkaUnavailable as error:
        toolchain_is_missing("java", str(error))


@pytest.fixture(scope="session")
def java_client_classpath(kafka_classpath: str) -> str:
    """The class path with which the Java clients of these tests run."""
    return compile_client(kafka_classpath)


@pytest.fixture
def java(java_client_classpath: str, bootstrap: str) -> Iterator[JavaClient]:
    """A JVM with Java clients."""
    client = JavaClient(java_client_classpath, bootstrap)
    yield client
    client.close()
