"""Tests that queries may start at the same time in one session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.spark_queries import Runs
from tests.support.spark_topics import Topic

from klamm.spark import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_start_of_a_query_adds_nothing_to_the_environment_that_all_queries_share(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    """Spark puts some variables into the environment of the registered source at each start of a query, without a lock.
    The variables exist before, so the map of the environment, which other starts and tasks read, keeps its shape."""
    register(spark)
    before = environment(spark)

    Runs(spark, topic, tmp_path / "checkpoint").to_the_end(startingOffsets="earliest")

    assert environment(spark) == before


def environment(spark: SparkSession) -> set[str]:
    """Returns the names of the variables of the registered source, in the JVM."""
    sessions: Any = spark._jsparkSession.sessionState()
    source = sessions.dataSourceManager().lookupDataSource("klamm")
    return set(source.dataSourceCls().envVars().keySet())
