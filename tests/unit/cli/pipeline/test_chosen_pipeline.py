"""Tests the start of Spark for a command, and which sessions write checkpoints through klamm's file system."""

from __future__ import annotations

import argparse

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkRuntimeError

import klamm.spark
from klamm.cli.pipeline import chosen_pipeline
from klamm.cli.pipeline.chosen_pipeline import Chosen, can_have_fast_checkpoints, session_for
from klamm.pipelines import Pipeline, PipelineError
from klamm.pipelines.run.place import Place

KEY = "spark.hadoop.fs.AbstractFileSystem.file.impl"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Py4JNetworkError("Error while sending or receiving"), "Error while sending or receiving"),
        (
            Py4JError(
                "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
                ": org.apache.spark.SparkException: Could not parse Master URL: 'nonsense'\n\tat org.apache.spark…"
            ),
            "Could not parse Master URL: 'nonsense'",
        ),
        (PySparkRuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited"), "Java gateway process exited"),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
    ],
)
def test_spark_that_does_not_start(monkeypatch: pytest.MonkeyPatch, error: Exception, text: str) -> None:
    """An error at the start of Spark, such as the end of its JVM or a wrong master, is a sentence."""

    def session(*arguments: object, **conf: object) -> None:
        raise error

    monkeypatch.setattr(klamm.spark, "session", session)
    pipeline = Pipeline("flights")
    place = Place.at("flights", bootstrap_servers="kafka:9092", checkpoints="/checkpoints")

    with pytest.raises(PipelineError) as raised:
        session_for(argparse.Namespace(master=None), Chosen(pipeline, [], place))

    assert str(raised.value).startswith("Spark does not start: ")
    assert text in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.fixture(autouse=True)
def jar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chosen_pipeline, "is_built", lambda: True)


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]", "local[2,4]"])
def test_on_this_machine(master: str) -> None:
    """A session whose JVM is on this machine has them."""
    assert can_have_fast_checkpoints(master, {}, {})


@pytest.mark.parametrize("master", ["local-cluster[2,1,1024]", "spark://master:7077", "yarn"])
def test_on_a_cluster(master: str) -> None:
    """Other machines may not have the jar."""
    assert not can_have_fast_checkpoints(master, {}, {})


def test_under_spark_submit() -> None:
    """The JVM of spark-submit runs already, and its class path can't be changed."""
    assert not can_have_fast_checkpoints("local[*]", {}, {"spark.master": "local[*]"})


def test_with_a_file_system_of_the_user() -> None:
    """The setting of the pipeline counts."""
    assert not can_have_fast_checkpoints("local[*]", {KEY: "org.apache.hadoop.fs.local.LocalFs"}, {})


def test_without_the_jar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the jar the run needs no other setting: it is only slower."""
    monkeypatch.setattr(chosen_pipeline, "is_built", lambda: False)
    assert not can_have_fast_checkpoints("local[*]", {}, {})
