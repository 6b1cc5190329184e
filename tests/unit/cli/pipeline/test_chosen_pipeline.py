"""Tests the start of Spark for a command."""

from __future__ import annotations

import argparse

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkRuntimeError

import klamm.spark
from klamm.cli.pipeline.chosen_pipeline import Chosen, session_for
from klamm.pipelines import Pipeline, PipelineError
from klamm.pipelines.run.place import Place


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
