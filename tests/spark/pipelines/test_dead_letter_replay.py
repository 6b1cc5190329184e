"""Tests the replay of dead letters after a correction."""

from __future__ import annotations

import json as standard_json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.pipelines.conftest import Runs
from tests.support.spark_topics import Record, Topic

from klamm.pipelines import Pipeline, PipelineError, dead_letters, json, to_batches, to_files, to_topic, topic
from klamm.pipelines.run.dead_letter_headers import dead_letter_columns, originals
from klamm.pipelines.run.dead_letter_replay import refuse_state, replay_flow, return_flow
from klamm.pipelines.run.pipeline_run import PipelineRun

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from klamm.pipelines.declare.flow import Flow


def declared(name: str, flights: Topic, check: str, **more: Any) -> Pipeline:
    pipeline = Pipeline(name)
    given = {"sink": to_topic(f"{name}-out", key="dest"), "check": check, "name": "late", **more}
    pipeline.flow(source=topic(flights.name, decode=json("dest string, delay int"), headers=True), **given)(late)
    return pipeline


def late(flights: DataFrame) -> DataFrame:
    return flights.selectExpr("dest", "delay", "_record.offset AS offset", "size(_record.headers) AS headers")


def replay(runs: Runs, pipeline: Pipeline, derive: Callable[..., Flow]) -> bool:
    place = runs.place(pipeline)
    flow = derive(place, pipeline.flows["late"])
    return PipelineRun(runs.spark, pipeline, place, [flow], once=True).run()


def written(runs: Runs, name: str) -> list[Any]:
    records = runs.topic(f"{name}-out").records(1)[0]
    return [tuple(standard_json.loads(record.value or b"").values()) for record in records]


def test_corrected_records_go_to_the_sink_once(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """A replay writes what is good now, with its original place and headers; what is still bad is a dead letter again,
    with the new reason, and is found by the next replay. Nothing is replayed twice."""
    flights = new_topic()
    delays = [20, 4_000, 90_000]
    flights.produce_records(
        [{"value": f'{{"dest": "JFK", "delay": {delay}}}', "headers": [("trace", b"1")]} for delay in delays]
    )
    assert runs.once(declared(name, flights, "delay < 3000"))
    assert written(runs, name) == [(20, 0, 1)]

    corrected = declared(name, flights, "delay < 5000")
    assert replay(runs, corrected, replay_flow)
    assert replay(runs, corrected, replay_flow)
    assert written(runs, name) == [(20, 0, 1), (4_000, 1, 1)]
    letters = runs.topic(f"{name}.late.dead-letters").records(1)[0]
    assert [standard_json.loads(letter.value or b"")["delay"] for letter in letters][:3] == [4_000, 90_000, 90_000]
    headers = dict(letters[2].headers)
    assert [key for key, _ in letters[2].headers].count("klamm.reason") == 1
    assert (headers["klamm.offset"], headers["trace"]) == (b"2", b"1")
    assert headers["klamm.topic"] == flights.name.encode()
    assert headers["klamm.reason"] == b"the check is not true: delay < 5000"

    assert replay(runs, declared(name, flights, "delay < 100000"), replay_flow)
    assert written(runs, name)[2:] == [(90_000, 2, 1)]


def test_records_go_back_to_their_topic(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """With the other kind of replay the records are written to their topic again, as they were, each once. The options
    of the dead letters hold for this replay too, also those that klamm sets by default."""
    flights = new_topic()
    flights.produce_records([{"value": "bad", "key": "k", "headers": [("trace", b"1")]}, {"value": None, "key": "t"}])
    letters = dead_letters(options={"kafka.max.request.size": 32 << 20})
    pipeline = declared(name, flights, "true", bad_records=letters)
    assert runs.once(pipeline)

    assert replay(runs, pipeline, return_flow)
    assert replay(runs, pipeline, return_flow)

    again = [Record(b"k", b"bad", (("trace", b"1"),)), Record(b"t", None)]
    assert flights.records(1)[0] == again * 2


def test_a_dead_letter_may_be_a_bad_record_of_another_flow(spark: SparkSession) -> None:
    """A flow that reads the dead letters of another one has bad records with klamm's headers. A replay restores these
    headers, and takes off its own only. Other headers that begin with klamm's prefix stay, too."""
    place = "binary('k') AS key, binary('v') AS value, 'letters' AS topic, 1 AS partition, 2L AS offset"
    record = spark.range(1).selectExpr(
        *place.split(", "),
        "timestamp_millis(3) AS timestamp",
        "array(named_struct('key', 'klamm.mine', 'value', binary('1'))) AS headers",
        "'bad' AS reason",
    )
    columns = [name for name in record.columns if name not in ("headers", "reason")]
    first = dead_letter_columns(record, "p.a").selectExpr(
        *place.split(", "), "timestamp_millis(3) AS timestamp", "headers", "'worse' AS reason"
    )
    second = dead_letter_columns(first, "p.b").selectExpr(
        *place.split(", "), "timestamp_millis(9) AS timestamp", "headers"
    )

    (restored,) = originals(second, "p.b").collect()

    assert restored.headers == first.collect()[0].headers
    assert (restored.topic, restored.partition, restored.offset) == ("letters", 1, 2)
    again = originals(first.drop("reason"), "p.a").selectExpr(*columns, "headers").collect()[0]
    assert [(header.key, bytes(header.value)) for header in again.headers] == [("klamm.mine", b"1")]


@pytest.mark.parametrize("derive", [replay_flow, return_flow])
def test_flows_may_share_a_topic_of_dead_letters(
    runs: Runs, name: str, new_topic: Callable[..., Topic], derive: Callable[..., Flow]
) -> None:
    """A replay takes the dead letters of its own flow only, and records of others that are no dead letters."""
    flights = {"late": new_topic(), "early": new_topic()}

    def both(check: str) -> Pipeline:
        pipeline = Pipeline(name)
        for flow, each in flights.items():
            pipeline.flow(
                source=topic(each.name, decode=json("delay int")),
                sink=to_topic(f"{name}-{flow}"),
                check=check,
                bad_records=dead_letters(f"{name}-bad"),
                name=flow,
            )(lambda flights: flights.select("delay"))
        return pipeline

    flights["late"].produce(['{"delay": 1}'])
    flights["early"].produce(['{"delay": 2}'])
    assert runs.once(both("false"))
    runs.topic(f"{name}-bad").produce(['{"delay": 3}'])

    corrected = both("true")
    assert replay(runs, corrected, derive)

    if derive is replay_flow:
        assert {record.value for record in runs.topic(f"{name}-late").records(1)[0]} == {b'{"delay":1}', b'{"delay":3}'}
    else:
        assert [record.value for record in flights["late"].records(1)[0]] == [b'{"delay": 1}'] * 2
        assert len(flights["early"].records(1)[0]) == 1


def test_what_can_not_be_replayed_alone(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """A flow with state, and sinks that know micro-batches by number, are refused with the way that works."""
    flights = new_topic()
    files = declared(name, flights, "true", sink=to_files("out"))
    batches = declared(name, flights, "true", sink=to_batches(print))
    for pipeline in (files, batches):
        with pytest.raises(PipelineError, match="With --to-source"):
            replay_flow(runs.place(pipeline), pipeline.flows["late"])
    dropping = declared(name, flights, "true", bad_records="drop")
    with pytest.raises(PipelineError, match="writes no dead letters"):
        replay_flow(runs.place(dropping), dropping.flows["late"])

    counts = Pipeline(name)
    counts.flow(source=topic(flights.name), sink=to_topic(f"{name}-out"), output_mode="update", name="late")(
        lambda flights: flights.groupBy("value").count()
    )
    with pytest.raises(PipelineError, match=r"has state \(Aggregate\)"):
        refuse_state(runs.spark, runs.place(counts), replay_flow(runs.place(counts), counts.flows["late"]))
    pairs = Pipeline(name)
    pairs.flow(source=topic(flights.name), sink=to_topic(f"{name}-out", value="value"), name="late")(
        lambda flights: flights.select("value").join(flights.select("value"), "value")
    )
    with pytest.raises(PipelineError, match=r"has state \(Join\)"):
        refuse_state(runs.spark, runs.place(pairs), replay_flow(runs.place(pairs), pairs.flows["late"]))
