"""The pytest plugin: a broker for the session, a new topic for each test, a cluster, a Spark session, and pipelines.

It is installed with klamm and needs no import.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from klamm.pipelines import Pipeline
    from klamm.testing.cluster import Cluster
    from klamm.testing.embedded import Broker
    from klamm.testing.pipeline_harness import PipelineHarness

__all__ = ["klamm_broker", "klamm_cluster", "klamm_pipeline", "klamm_spark", "klamm_topic"]


@pytest.fixture(scope="session")
def klamm_broker() -> Iterator[Broker]:
    """Provides a broker for the whole session, with a temporary data folder."""
    from klamm.testing.embedded import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def klamm_topic(klamm_broker: Broker, request: pytest.FixtureRequest) -> str:
    """Returns a unique topic name; the topic is created on first use, with the broker's default number of
    partitions."""
    return f"{re.sub('[^a-zA-Z0-9._-]', '-', request.node.name)[:80]}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def klamm_cluster() -> Iterator[Cluster]:
    """Provides a cluster of three brokers for one test, which may kill, pause and cut off its brokers.

    Its start takes less than a tenth of a second, after the first one of a process.
    """
    from klamm.testing.cluster import Cluster

    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def klamm_spark() -> Iterator[SparkSession]:
    """Provides a Spark session for the whole session of tests; its start takes several seconds, once.

    Its time zone is UTC, as in a run of a pipeline.
    """
    from klamm.pipelines.run.run_settings import RUN_SETTINGS
    from klamm.spark import session
    from klamm.testing.shared_session import share_modules

    # A JVM that ends with the tests spends more on compiling for the long run than it wins.
    java = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "spark.log.level": "OFF"}
    settings = {**RUN_SETTINGS, **java}
    spark = session("klamm tests", "local[2]", **settings)  # type: ignore[arg-type]  # none is `fast_checkpoints`
    share_modules(spark)
    yield spark
    spark.stop()


@pytest.fixture
def klamm_pipeline(klamm_spark: SparkSession, tmp_path: Path) -> Iterator[Callable[..., PipelineHarness]]:
    """Returns a function that prepares a pipeline, or the file of one, for this test, with a broker of its own.

    The function takes the environment of the pipeline as `environment`, by default none. Files that the pipeline writes
    are below the test's temporary folder."""
    from klamm.testing.embedded import Broker
    from klamm.testing.pipeline_harness import PipelineHarness

    with Broker() as broker:

        def prepare(pipeline: Pipeline | str | Path, *, environment: str | None = None) -> PipelineHarness:
            return PipelineHarness(klamm_spark, pipeline, broker.bootstrap_servers, tmp_path, environment)

        yield prepare
        for query in klamm_spark.streams.active:  # of a test that failed
            query.stop()
