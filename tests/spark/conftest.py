"""Provides one Spark session and one broker for all Spark tests.

The broker is a `klamm serve` process. KLAMM_SPARK_TEST_BROKER=workers selects three workers of `klamm serve`, and
KLAMM_SPARK_TEST_BROKER=apache-kafka selects Apache Kafka from its jars. The source must behave the same with all.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from confluent_kafka.admin import AdminClient

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.interop.broker_process import BrokerProcess
from tests.support.kafka_broker import ApacheKafka
from tests.support.share_of_gate import is_in_share_of_gate
from tests.support.short_lived_java import QUICK_START
from tests.support.short_lived_spark import SHORT_LIVED_JVM, prepare_classes
from tests.support.spark_connector import ConnectorUnavailable, connector_jars
from tests.support.spark_topics import Topic, create_topic
from tests.support.toolchains import toolchain_is_missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FOLDER: Final = Path(__file__).parent
_BROKER: Final = os.environ.get("KLAMM_SPARK_TEST_BROKER", "klamm")
IS_APACHE_KAFKA: Final = _BROKER == "apache-kafka"
_WORKERS: Final = 3


# What everything else rests on: reading, writing, commits, exactly once. The gate runs one in so many of the tests of
# these files for each commit, and one in so many of the tests of the other files, which start Spark many times or wait
# long. Those that it runs on Apache Kafka are all of these files.
_CORE: Final = frozenset(
    {
        "test_batch_read.py",
        "test_cleaned_log.py",
        "test_exactly_once_kills.py",
        "test_exactly_once_marker.py",
        "test_group_commits.py",
        "test_open_transaction.py",
        "test_planning.py",
        "test_query_member.py",
        "test_read_committed.py",
        "test_shared_tasks.py",
        "test_sink.py",
        "test_sink_exactly_once.py",
        "test_streaming.py",
    }
)
_PARTS_OF_CORE: Final = 2
_PARTS_OF_OTHERS: Final = 5
# A test of these files takes minutes.
_PARTS_OF_LONGEST: Final = {
    "test_declarative_pipelines.py": 10,
    "test_demo.py": 10,
    "test_driver_kills.py": 10,
    "test_pipeline_commands.py": 10,
    "test_tutorial.py": 15,
}
_PARTS_ON_KAFKA: Final = 3
# The gate runs all cases of these tests on klamm, for each commit: one kill of a driver at each point of a micro-batch
# and between two, and two kills with several topics.
_ALWAYS: Final = frozenset(
    {
        "test_a_driver_that_dies_at_any_point",
        "test_a_driver_that_dies_between_two_micro_batches",
        "test_a_driver_that_dies_while_it_writes_several_topics",
    }
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks the tests in this folder as Spark tests, which need PySpark and a JVM, and gives them a long timeout.

    If CI is set, leaves out the tests that the gate does not run for this commit.

    A timeout in the middle of a call leaves an unread answer on the connection to the one JVM. After that, every call
    of a later test gets the answer of the previous call.
    """
    left_out = []
    for item in items:
        if item.path.is_relative_to(_FOLDER):
            if not _is_always_run(item) and not is_in_share_of_gate(item.nodeid, _parts_of_gate(item.path.name)):
                left_out.append(item)
            item.add_marker(pytest.mark.spark)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(400))
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _is_always_run(item: pytest.Item) -> bool:
    return not IS_APACHE_KAFKA and getattr(item, "originalname", None) in _ALWAYS


def _parts_of_gate(name: str) -> int:
    if IS_APACHE_KAFKA:
        return _PARTS_ON_KAFKA
    return _PARTS_OF_CORE if name in _CORE else _PARTS_OF_LONGEST.get(name, _PARTS_OF_OTHERS)


@pytest.fixture(autouse=True)
def _quick_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the JVMs quick to start that a test's own processes start, such as drivers and `spark-pipelines`."""
    monkeypatch.setenv("JDK_JAVA_OPTIONS", " ".join(QUICK_START))


@pytest.fixture(scope="session", autouse=True)
def _classes_of_spark(request: pytest.FixtureRequest) -> None:
    """Prepares what halves the start of Spark, if a test will start it."""
    if any(item.get_closest_marker("spark") for item in request.session.items):
        pytest.importorskip("pyspark")
        prepare_classes()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Starts the shared session; `local[2,4]` retries failed tasks, plain `local[2]` never does."""
    pytest.importorskip("pyspark")
    from klamm.spark import session

    with pytest.MonkeyPatch.context() as patched:
        # Only the tests that compare klamm with Spark's own connector need the jars of the connector. This variable
        # puts them at the end of the class path, so that the archive of classes still fits.
        with suppress(ConnectorUnavailable):
            patched.setenv("SPARK_DIST_CLASSPATH", connector_jars())
        running = session("klamm tests", "local[2,4]", **SHORT_LIVED_JVM)
    yield running
    running.stop()


@pytest.fixture
def connector(spark: SparkSession) -> str:
    """Returns the `format(…)` name of Spark's own connector; skips the test if its jars are not available."""
    try:
        connector_jars()
    except ConnectorUnavailable as error:
        toolchain_is_missing("java", str(error))
    return "kafka"


@pytest.fixture(scope="session")
def bootstrap_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Runs the broker and returns its address, or the addresses of the workers."""
    if IS_APACHE_KAFKA:
        with ApacheKafka() as kafka:
            yield kafka.bootstrap_servers
    elif _BROKER == "workers":
        from tests.support.workers import Workers

        workers = Workers(tmp_path_factory.mktemp("workers"), "--workers", str(_WORKERS))
        try:
            yield workers.ready(_WORKERS)
            assert workers.stop() == 0
        finally:
            workers.end()
    else:
        process = BrokerProcess(tmp_path_factory.mktemp("broker"), {}, options=["--profile", "test"])
        yield process.bootstrap_servers
        process.stop()


@pytest.fixture(scope="session")
def admin(bootstrap_servers: str) -> AdminClient:
    """Returns an admin client of the broker."""
    return AdminClient({"bootstrap.servers": bootstrap_servers})


@pytest.fixture
def new_topic(admin: AdminClient, bootstrap_servers: str) -> Callable[..., Topic]:
    """Returns a function that creates a topic with a fresh name: `new_topic(partitions=3, **config)`."""

    def make(partitions: int = 1, **config: str) -> Topic:
        return create_topic(admin, bootstrap_servers, f"spark-{uuid.uuid4().hex[:12]}", partitions, config)

    return make


@pytest.fixture
def topic(new_topic: Callable[..., Topic]) -> Topic:
    """Creates a fresh topic of three partitions."""
    return new_topic(partitions=3)


@pytest.fixture(scope="session")
def is_apache_kafka() -> bool:
    """Returns whether the broker is Apache Kafka, which supports some features that klamm does not support yet."""
    return IS_APACHE_KAFKA


@pytest.fixture(scope="session")
def brokers(bootstrap_servers: str) -> int:
    """Returns how many brokers lead the partitions of a topic: a client sends requests to each of them."""
    return len(bootstrap_servers.split(","))


@pytest.fixture
def mortal(is_apache_kafka: bool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess | ApacheKafka]:
    """Runs a broker in a separate process, which a test can kill and restart."""
    if is_apache_kafka:
        with ApacheKafka() as kafka:
            yield kafka
    else:
        broker = BrokerProcess(tmp_path_factory.mktemp("broker"), {})
        yield broker
        broker.stop()
