"""Tests that a changed rule of what is bad loses no record between a flow and its dead letters."""

from __future__ import annotations

import json as standard_json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.pipelines.conftest import Background, Runs
from tests.support.spark_topics import Topic

from klamm.pipelines import Pipeline, json, to_batches, to_topic, topic
from klamm.pipelines.run.checkpoint_reader import end_of_finished
from klamm.pipelines.run.flow_check import check_flow
from klamm.pipelines.run.flow_queries import start_flow
from klamm.pipelines.run.judgement import Judgement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def declared(name: str, flights: Topic, check: str, sink: Any = None, schema: str | None = "delay int") -> Pipeline:
    pipeline = Pipeline(name)
    pipeline.flow(
        source=topic(flights.name, decode=json(schema)),
        sink=sink or to_topic(f"{name}-out"),
        check=check,
        name="late",
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
    flow, place = pipeline.flows["late"], runs.place(pipeline)
    query = start_flow(runs.spark, place, flow, Judgement(runs.spark, place, flow), once=True)
    query.awaitTermination()


def test_a_changed_check_loses_no_record(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """A record that the flow has left out under the old check, and that is good under the new one, is not left out of
    the dead letters as well: while the dead letters are behind, the new check is refused. After a run of the former
    code both stand at the same record, and the new check is accepted."""
    flights = new_topic()
    flights.produce([flight(20), flight(4_000)])
    former, changed = declared(name, flights, "delay < 3000"), declared(name, flights, "delay < 5000")
    run_flow_alone(runs, former)

    found = check_flow(runs.spark, runs.place(changed), changed.flows["late"])
    assert ["the check of flights" in problem for problem in found.problems] == [True]
    run = runs.run(changed)
    assert not run.run()
    assert (run.flows[0].message or "").startswith("flow late stopped: ")
    assert "the check of flights was `delay < 3000`, now `delay < 5000`" in (run.flows[0].message or "")
    assert "--once" in (run.flows[0].message or "")
    assert runs.once(former)
    flights.produce([flight(4_500), flight(9_000)])
    assert runs.once(changed)

    assert delays(runs, f"{name}-out") == [20, 4_500]
    assert delays(runs, f"{name}.late.dead-letters") == [4_000, 9_000]


def test_another_inferred_schema_loses_no_record(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """A record that is bad by the first inferred schema may be good by a newer one. If the file with the schemas is
    deleted while the dead letters are behind, the run and the check refuse the newer schema, and nothing is lost. With
    the former schema, which the message names, both reach the same record. Then the newer one is taken."""
    flights = new_topic()
    flights.produce([flight(20)])
    pipeline = declared(name, flights, "true", schema=None)
    run_flow_alone(runs, pipeline)
    flights.produce(['{"delay": "late"}'])
    run_flow_alone(runs, pipeline)
    folder = Path(runs.place(pipeline).flow_folder("late"))
    (folder / "schema.json").unlink()

    problems = check_flow(runs.spark, runs.place(pipeline), pipeline.flows["late"]).problems
    assert ["the schema of flights is not that of the last run" in problem for problem in problems] == [True]
    run = runs.run(pipeline)
    assert not run.run()
    assert "the schema of flights is not that of the last run" in (run.flows[0].message or "")
    assert not (folder / "schema.json").exists()
    former = standard_json.loads((folder / "identity.json").read_text())["bad records"]["schemas"]
    (folder / "schema.json").write_text(standard_json.dumps(former))
    assert runs.once(pipeline)
    (folder / "schema.json").unlink()
    flights.produce(['{"delay": "later"}'])
    assert runs.once(pipeline)

    assert delays(runs, f"{name}-out") == [20, "later"]
    assert delays(runs, f"{name}.late.dead-letters") == ["late"]


def test_another_time_zone_loses_no_record(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """A check may depend on the session's time zone. While the dead letters are behind, another one is refused."""
    flights = new_topic()
    flights.produce([flight(20)])
    pipeline = declared(name, flights, "_record.timestamp > '2020-01-01'")
    run_flow_alone(runs, pipeline)
    zone = str(runs.spark.conf.get("spark.sql.session.timeZone"))
    runs.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        run = runs.run(pipeline)
        assert not run.run()
    finally:
        runs.spark.conf.set("spark.sql.session.timeZone", zone)

    text = f"the setting spark.sql.session.timeZone was {zone}, now Asia/Tokyo, while"
    assert text in (run.flows[0].message or "")
    assert runs.once(pipeline)


@pytest.mark.parametrize("have_started", [False, True])
def test_a_stopped_flow_and_its_dead_letters_end_together(
    runs: Runs, name: str, new_topic: Callable[..., Topic], have_started: bool
) -> None:
    """At a stop the flow ends first, and its dead letters read up to the same record, even if they had not started. So
    the check may be another one in the next run."""
    flights = new_topic()
    flights.produce([flight(20), flight(4_000)])
    run = runs.run(declared(name, flights, "delay < 3000"), once=False)
    background, queries = Background(run), run.flows[0].queries
    if have_started:
        background.wait_for(lambda: run.flows[0].status().queries["dead-letters"].bad_records == 1)
        flights.produce([flight(30), flight(4_500)])
        background.wait_for(lambda: run.flows[0].status().queries["flow"].records == 4)
    else:
        background.wait_for(lambda: queries["flow"].has_run)
    run.request_stop()
    assert background.join()

    place = runs.place(declared(name, flights, "true"))
    ends = [end_of_finished(place.checkpoint("late")), end_of_finished(place.dead_letters_checkpoint("late"))]
    assert not any(ends[0].get(key, 0) != ends[1].get(key, 0) for key in ends[0])
    assert runs.once(declared(name, flights, "delay < 5000"))
    read = sorted(delays(runs, f"{name}-out") + delays(runs, f"{name}.late.dead-letters"))
    assert read == ([20, 30, 4_000, 4_500] if have_started else [20, 4_000])


def test_dead_letters_that_are_ahead_wait(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """Dead letters of an older version may be ahead of the flow. They wait until it has passed them, and write no
    record twice."""
    flights = new_topic()
    # The marker of an exactly-once sink would refuse a checkpoint that has lost a micro-batch.
    pipeline = declared(name, flights, "delay < 3000", to_batches(lambda frame, batch_id: frame.collect()))
    for numbers in ((20, 4_000), (30, 5_000)):
        flights.produce([flight(number) for number in numbers])
        assert runs.once(pipeline)
    checkpoint = Path(runs.place(pipeline).checkpoint("late"))
    for file in (checkpoint / "offsets" / "1", checkpoint / "commits" / "1"):
        file.unlink()

    flights.produce([flight(40), flight(6_000)])
    assert runs.once(pipeline)

    assert delays(runs, f"{name}.late.dead-letters") == [4_000, 5_000, 6_000]
