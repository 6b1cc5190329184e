"""One Spark session and one broker for all Spark tests.

The broker is klamm's own, unless KLAMM_SPARK_TEST_BROKER=apache-kafka asks for Apache Kafka from its jars: the source
must not be able to tell them apart.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.spark_connector import ConnectorUnavailable, connector_jars
from tests.support.spark_driver import SHORT_LIVED_JVM
from tests.support.spark_topics import Topic, create_topic
from tests.support.toolchains import toolchain_is_missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IS_APACHE_KAFKA = os.environ.get("KLAMM_SPARK_TEST_BROKER") == "apache-kafka"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs PySpark and a JVM.

    And patience: a timeout in the middle of a call leaves the connection to the one JVM with an answer that nobody
    reads, and all tests after it get the answer of the call before theirs.
    """
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(400))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one session; `local[2,4]` retries failed tasks, which plain `local[2]` never does."""
    pytest.importorskip("pyspark")
    from klamm.spark import session

    # Only the tests that compare with Spark's own connector need its jars; the others do without.
    settings = dict(SHORT_LIVED_JVM)
    with suppress(ConnectorUnavailable):
        settings["spark.driver.extraClassPath"] = connector_jars()
    running = session("klamm tests", "local[2,4]", **settings)
    yield running
    running.stop()


@pytest.fixture
def connector(spark: SparkSession) -> str:
    """What stands in `format(…)` for Spark's own connector; skips the test where its jars can't be had."""
    try:
        connector_jars()
    except ConnectorUnavailable as error:
        toolchain_is_missing("java", str(error))
    return "kafka"


@pytest.fixture(scope="session")
def bootstrap_servers() -> Iterator[str]:
    """Where the broker is."""
    if IS_APACHE_KAFKA:
        from tests.support.kafka_broker import ApacheKafka

        with ApacheKafka() as kafka:
            yield kafka.bootstrap_servers
    else:
        from klamm.testing import Broker

        with Broker() as broker:
            yield broker.bootstrap_servers


@pytest.fixture(scope="session")
def admin(bootstrap_servers: str) -> AdminClient:
    """An admin client of the broker."""
    return AdminClient({"bootstrap.servers": bootstrap_servers})


@pytest.fixture
def new_topic(admin: AdminClient, bootstrap_servers: str) -> Callable[..., Topic]:
    """Makes a topic with a fresh name: `new_topic(partitions=3, **config)`."""

    def make(partitions: int = 1, **config: str) -> Topic:
        return create_topic(admin, bootstrap_servers, f"spark-{uuid.uuid4().hex[:12]}", partitions, config)

    return make


@pytest.fixture
def topic(new_topic: Callable[..., Topic]) -> Topic:
    """A fresh topic of three partitions."""
    return new_topic(partitions=3)


@pytest.fixture(scope="session")
def is_apache_kafka() -> bool:
    """Whether the broker is Apache Kafka, which can do some things that klamm can't yet."""
    return IS_APACHE_KAFKA
