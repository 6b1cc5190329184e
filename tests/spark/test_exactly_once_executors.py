"""Tests a query with `klamm.sink.semantics=exactly-once` whose executors or drivers are killed at a chosen point, or
whose tasks have speculative attempts.

Each test starts a driver of its own, so `make faults` tries all points, and other runs try one of each test.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.exactly_once_query import Query, committed
from tests.support.spark_topics import Topic
from tests.support.stopping_sink import HALF_STAGED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(400)

IS_MATRIX = "KLAMM_EXACTLY_ONCE_MATRIX" in os.environ
TASK_POINTS = ("task begun", HALF_STAGED, "task staged")
# Spark compares the run times of tasks ten times a second, and repeats a task in parallel that takes longer than the
# other one. Without the locality wait, both tasks of a micro-batch start at once, on both executors.
SPECULATION = {
    "spark_speculation": "true",
    "spark_speculation_quantile": "0.5",
    "spark_speculation_multiplier": "1.01",
    "spark_speculation_interval": "100ms",
    "spark_speculation_efficiency_enabled": "false",
    "spark_locality_wait": "0",
}


@pytest.fixture
def query(spark: SparkSession, topic: Topic, tmp_path: Path) -> Query:
    """A query with three files, whose tasks stage files."""
    query = Query(spark, topic, tmp_path, **{"klamm.sink.inline.bytes": "0"})
    for _ in range(3):
        query.add()
    return query


@pytest.mark.parametrize("point", TASK_POINTS if IS_MATRIX else [HALF_STAGED])
def test_an_executor_that_dies(query: Query, point: str) -> None:
    """An executor is killed while its task writes a staged file: Spark repeats the task, each row comes once, and no
    staged file is left."""
    query.points.kill_jvm_once_at(point, 1)

    with query.driver("local-cluster[2,1,1024]", has_points=True) as driver:
        assert driver.wait() == 0, driver.text()[-3000:]

    assert query.points.was_reached
    assert query.points.attempts(1)[0] > 1
    assert committed(query.topic) == query.written(3)
    assert query.staged() == []


@pytest.mark.parametrize("point", TASK_POINTS if IS_MATRIX else [HALF_STAGED])
def test_a_speculative_attempt(query: Query, point: str) -> None:
    """A task is slow, and Spark starts a second attempt of it, which stages the same rows. One of the attempts lands,
    and the files of both are removed."""
    query.points.pause_at(point, 1)

    with query.driver("two-hosts", has_points=True, **SPECULATION) as driver:
        assert driver.wait() == 0, driver.text()[-3000:]

    assert query.points.attempts(1)[0] > 1
    assert committed(query.topic) == query.written(3)
    assert query.staged() == []


@pytest.mark.parametrize(
    ("failed", "point"),
    [
        (None, HALF_STAGED),
        (None, "next begun"),
        (None, "planned"),
        (None, "first batch sent"),
        (None, "marker moved"),
        (None, "committed"),
        (None, "cleaned"),
        ("marker moved", "abort begun"),
        ("marker moved", "abort marker read"),
        ("committed", "abort removed a file"),
    ]
    if IS_MATRIX
    else [(None, HALF_STAGED)],
)
def test_a_driver_whose_jvm_is_killed(query: Query, failed: str | None, point: str) -> None:
    """The JVM of the driver is killed at a point, where the other tests end only the process of the sink. The topic has
    all rows of the micro-batch or none; after the next start, it has each row once, and no staged file is left."""
    query.is_planned_at_points = True
    if failed is not None:
        query.points.raise_once_at(failed, 1)
    query.points.kill_jvm_once_at(point, 1)

    with query.driver(has_points=True) as driver:
        assert driver.wait() != 0, driver.text()[-3000:]

    assert query.points.was_reached
    assert not (query.checkpoint / "commits" / "1").exists()
    has_landed = "committed" in {failed, point} or point == "cleaned"
    assert committed(query.topic) == query.written(1 + has_landed)
    query.run()
    assert committed(query.topic) == query.written(3)
    assert query.staged() == []
