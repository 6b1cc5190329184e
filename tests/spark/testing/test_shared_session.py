"""Tests that a pipeline under test runs as `klamm pipeline run` would run it, in the session that tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from klamm.pipelines import Pipeline, json, to_topic, topic
from klamm.testing import Broker
from klamm.testing.pipeline_harness import PipelineHarness
from klamm.testing.shared_session import settings_of_run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ZONE = "spark.sql.session.timeZone"


@pytest.fixture
def harness(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[Pipeline], PipelineHarness]]:
    """Returns a function that prepares a pipeline with a broker of its own."""
    with Broker() as broker:
        yield lambda pipeline: PipelineHarness(spark, pipeline, broker.bootstrap_servers, tmp_path)


@pytest.fixture
def tokyo(spark: SparkSession) -> Iterator[str]:
    """Gives the session the time zone of a machine elsewhere."""
    before = str(spark.conf.get(_ZONE))
    spark.conf.set(_ZONE, "Asia/Tokyo")
    yield "Asia/Tokyo"
    spark.conf.set(_ZONE, before)


@pytest.mark.parametrize(("conf", "hour"), [({}, 12), ({_ZONE: "America/New_York"}, 7)])
def test_the_settings_of_a_run(
    harness: Callable[[Pipeline], PipelineHarness], spark: SparkSession, tokyo: str, conf: dict[str, str], hour: int
) -> None:
    """A pipeline under test runs in UTC or in the time zone that it declares, whatever the time zone of the machine is.
    Other tests find the session as it was."""
    pipeline = Pipeline("flights", conf=conf)

    @pipeline.flow(source=topic("flights", decode=json("at timestamp")), sink=to_topic("hours"))
    def hours(flights: DataFrame) -> DataFrame:
        return flights.selectExpr("hour(at) AS hour")

    run = harness(pipeline)
    run.produce("flights", [{"at": "2026-01-31T12:00:00Z"}])
    run.run()

    assert [record.json for record in run.records("hours")] == [{"hour": hour}]
    assert spark.conf.get(_ZONE) == tokyo


def test_settings_are_restored(spark: SparkSession) -> None:
    """Settings that were not set are removed again. Those that Spark can't change in a running session stay as they
    are."""
    conf: dict[str, str | int | float | bool] = {
        "spark.sql.caseSensitive": True,
        "spark.sql.shuffle.partitions": 7,
        "spark.sql.catalog.lake.uri": "file:/lake",
        "spark.sql.warehouse.dir": "/elsewhere",
        "spark.driver.memory": "9g",
    }
    before = spark.conf.getAll

    with settings_of_run(spark, conf):
        during = [spark.conf.get(key, None) for key in conf]

    assert during[:3] == ["true", "7", "file:/lake"]
    assert during[3] != "/elsewhere"
    assert during[4] != "9g"
    assert spark.conf.getAll == before
