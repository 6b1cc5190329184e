"""Tests that a changed rule of what is bad loses no record between a flow and its dead letters."""

from __future__ import annotations

import json as standard_json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.spark.pipelines.conftest import Background, Runs
from tests.support.spark_topics import Topic

from klamm.pipelines import Pipeline, dead_letters, json, to_topic, topic
from klamm.pipelines.run.bad_record_rule import bad_record_rule
from klamm.pipelines.run.dead_letter_replay import replay_flow, return_flow
from klamm.pipelines.run.flow_queries import start_flow
from klamm.pipelines.run.pipeline_run import PipelineRun

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def declared(name: str, flights: Topic, check: str) -> Pipeline:
    pipeline = Pipeline(name)
    pipeline.flow(
        source=topic(flights.name, decode=json("delay int")), sink=to_topic(f"{name}-out"), check=check, name="late"
    )(late)
    return pipeline


def late(flights: DataFrame) -> DataFrame:
    return flights.select("delay")


def flight(delay: int) -> str:
    return standard_json.dumps({"delay": delay})


def delays(runs: Runs, topic_name: str) -> list[Any]:
    return [standard_json.loads(record.value or b"")["delay"] for record in runs.topic(topic_name).records(1)[0]]


def run_flow_alone(runs: Runs, pipeline: Pipeline) -> None:
    """Runs a flow to the end of its topic without its dead letters, as a run that is killed before they start."""
    flow = pipeline.flows["late"]
    query = start_flow(runs.spark, runs.place(pipeline), flow, bad_record_rule(flow), once=True)
    query.awaitTermination()


def test_a_changed_check_loses_no_record(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """A record that the flow has left out under the old check, and that is good under the new one, is not left out of
    the dead letters as well: while the dead letters are behind, the new check is refused. After a run of the former
    code both stand at the same record, and the new check is accepted."""
    flights = new_topic()
    flights.produce([flight(20), flight(4_000)])
    former, changed = declared(name, flights, "delay < 3000"), declared(name, flights, "delay < 5000")
    run_flow_alone(runs, former)

    run = runs.run(changed)
    assert not run.run()
    assert "the check of flights was `delay < 3000`, now `delay < 5000`" in (run.flows[0].message or "")
    assert "--once" in (run.flows[0].message or "")
    assert runs.once(former)
    flights.produce([flight(4_500), flight(9_000)])
    assert runs.once(changed)

    assert delays(runs, f"{name}-out") == [20, 4_500]
    assert delays(runs, f"{name}.late.dead-letters") == [4_000, 9_000]
