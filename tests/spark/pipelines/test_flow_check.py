"""Tests what a check of a flow tells, and that it writes nothing."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource
from tests.spark.pipelines.conftest import Runs
from tests.support.spark_topics import Topic

from klamm.pipelines import Pipeline, dead_letters, json, to_batches, to_files, to_format, to_topic, topic
from klamm.pipelines.declare.sinks import Sink
from klamm.pipelines.run.flow_check import FlowCheck, check_flow
from klamm.pipelines.run.place import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def unchanged(flights: DataFrame) -> DataFrame:
    return flights


def check(runs: Runs, pipeline: Pipeline, environment: str | None = None) -> FlowCheck:
    (flow,) = pipeline.flows.values()
    return check_flow(runs.spark, runs.place(pipeline, environment), flow)


def test_a_flow_that_would_work(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """A check tells the partitions, the group, the start and what is to be read, the columns, and topics to create. The
    schema may be inferred; nothing is written. After a run the start is the checkpoint."""
    flights = new_topic(partitions=2)
    flights.produce(['{"dest": "JFK", "delay": 20}'] * 3, partition=1)
    pipeline = Pipeline(name)
    pipeline.flow(source=topic(flights.name, decode=json()), sink=to_topic(f"{name}-out", key="dest"), name="late")(
        unchanged
    )

    found = check(runs, pipeline)

    (source,) = found.sources
    assert (source.partitions, source.group, source.starts_at, source.to_read) == (2, f"{name}.late", "earliest", 3)
    assert source.columns == "dest string, delay bigint"
    assert found.columns == "key string, value string"
    assert found.sink == f"topic {name}-out, exactly-once"
    assert found.bad_records == f"topic {name}.late.dead-letters"
    assert found.problems == []
    assert found.warnings == [
        f"the topic {topic} does not exist; a run creates it" for topic in (f"{name}-out", f"{name}.late.dead-letters")
    ]
    assert not (runs.folder / "checkpoints").exists()

    assert runs.once(pipeline)
    flights.produce(['{"dest": "LAX"}'], partition=0)
    found = check(runs, pipeline)
    assert (found.sources[0].starts_at, found.sources[0].to_read) == ("the checkpoint", 1)
    assert found.warnings == []


def test_flows_that_would_fail(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """A check finds a missing topic, a missing column, an option that does not exist, an output mode that Spark does
    not allow, a format whose jar is missing, and an interval that is none. A run fails at once, without restarts."""
    flights = new_topic()
    source = topic(flights.name, decode=json("dest string, delay int"))
    out = to_topic(f"{name}-out")
    cases: dict[str, dict[str, Any]] = {
        "no such topic": {"source": topic(f"{name}-none", options={"fetchOffset.numRetries": 1})},
        "UNRESOLVED_COLUMN": {"source": source, "check": "speed > 3"},
        "its check uses current_timestamp()": {"source": source, "check": "current_timestamp() > '2020-01-01'"},
        "its check uses rand()": {"source": source, "check": "delay IS NULL OR rand() > 0.5"},
        "unknown option": {"source": source, "sink": to_topic(f"{name}-out", options={"klamm.sink.stagin": "x"})},
        "did you mean klamm.sink.first.batch?": {
            "source": source,
            "bad_records": dead_letters(options={"klamm.sink.first.batc": "0"}),
        },
        "complete": {"source": source, "output_mode": "complete"},
        "Spark has no format 'delta'": {"source": source, "sink": to_format("delta", path=str(runs.folder / "delta"))},
        "Spark has no format 'par'": {"source": source, "sink": to_files(str(runs.folder / "out"), format="par")},
        "every='5 secnds' is no interval": {"source": source, "every": "5 secnds"},
    }
    for number, (text, arguments) in enumerate(cases.items()):
        pipeline = Pipeline(f"{name}{number}")
        pipeline.flow(**{"sink": out, "name": "late", **arguments})(unchanged)
        problems = check(runs, pipeline).problems
        assert len(problems) == 1, problems
        assert text in problems[0]
        if text != "no such topic":  # a topic may come
            run = runs.run(pipeline, once=False)
            assert not run.run()
            assert run.flows[0].status().figures.restarts == 0
            assert text in (run.flows[0].message or "")


def test_a_check_waits_once_for_a_cluster_that_does_not_answer(runs: Runs, name: str) -> None:
    """The check ends after the first step that asks the cluster. It still tells what the flow reads and writes."""
    pipeline = Pipeline(name)
    source = topic("flights", decode=json("dest string, delay int"))
    pipeline.flow(source=source, sink=to_topic(f"{name}-out"), name="late")(unchanged)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        place = Place.at(
            name,
            bootstrap_servers=f"127.0.0.1:{closed.getsockname()[1]}",
            checkpoints=str(runs.folder / "checkpoints"),
            client_options={"kafka.default.api.timeout.ms": "300"},
        )
        found = check_flow(runs.spark, place, pipeline.flows["late"])

    (problem,) = found.problems
    assert "default.api.timeout.ms=300" in problem
    assert found.sink == f"topic {name}-out, exactly-once"
    assert [(source.topics, source.group) for source in found.sources] == [("flights", f"{name}.late")]


def test_formats_that_spark_has(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """Formats of Spark, and a Python data source that is registered in the session, are found."""
    source = topic(new_topic().name, decode=json("dest string, delay int"))
    sinks: tuple[Sink, ...] = (to_format("console"), to_format("noop"), to_files(str(runs.folder), format="orc"))
    for number, sink in enumerate(sinks):
        pipeline = Pipeline(f"{name}{number}")
        pipeline.flow(source=source, sink=sink, name="late", every="1 minute 30 seconds")(unchanged)
        assert check(runs, pipeline).problems == []
    runs.spark.dataSource.register(PythonSink)
    pipeline = Pipeline(name)
    pipeline.flow(source=source, sink=to_format(PythonSink.name()), name="late")(unchanged)

    assert check(runs, pipeline).problems == []


class PythonSink(DataSource):
    """A sink in Python, as far as it is declared."""

    @classmethod
    def name(cls) -> str:
        return "klamm-test-sink"


def test_a_function_without_an_environment_is_warned_of(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """In an environment, a function that does not know it writes to the same place as in the others."""
    pipeline = Pipeline(name)
    pipeline.flow(
        source=topic(new_topic().name), sink=to_batches(lambda frame, batch_id: None), bad_records="drop", name="late"
    )(unchanged)

    assert check(runs, pipeline).warnings == []
    (warning,) = check(runs, pipeline, "test").warnings
    assert "no parameter `environment`" in warning
