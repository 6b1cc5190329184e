"""Tests runs of pipelines: sinks, starts, environments, failures with restarts, and the stop between micro-batches."""

from __future__ import annotations

import json as standard_json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.spark.pipelines.conftest import Background, Runs
from tests.support.spark_topics import Topic

from klamm.pipelines import Pipeline, PipelineError, group, json, raw, to_batches, to_files, to_topic, topic
from klamm.pipelines.decoders.decoder import Decoder, DecodingPlace, PinnedDecoder
from klamm.pipelines.run.flow_check import check_flow
from klamm.pipelines.run.flow_run import STOP_FILE
from klamm.pipelines.status.flow_status import read_status

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SCHEMA = "dest string, delay int"


def flight(dest: str, delay: int) -> str:
    return standard_json.dumps({"dest": dest, "delay": delay})


def unchanged(flights: DataFrame) -> DataFrame:
    return flights


def nothing(flights: DataFrame) -> Any:
    return None


def values(topic: Topic) -> list[Any]:
    """Returns the parsed values of a topic with one partition, in their order."""
    return [standard_json.loads(record.value or b"null") for record in topic.records(1)[0]]


def test_flows_with_each_kind_of_sink(runs: Runs, name: str, new_topic: Callable[..., Topic], tmp_path: Path) -> None:
    """Flows of one pipeline write files by partition, updates of an aggregation to a topic, and micro-batches to a
    function; a second run continues where the first ended."""
    flights = new_topic()
    flights.produce([flight("JFK", 20), flight("LAX", 5)])
    source = topic(flights.name, decode=json(SCHEMA))
    batches: list[list[str]] = []
    pipeline = Pipeline(name)
    pipeline.flow(source=source, sink=to_files(str(tmp_path / "files"), partition_by="dest"), name="files")(unchanged)
    pipeline.flow(source=source, sink=to_topic(f"{name}-counts", key="dest"), output_mode="update", name="counts")(
        lambda flights: flights.groupBy("dest").count()
    )
    pipeline.flow(
        source=source,
        sink=to_batches(lambda frame, batch_id: batches.append([row.dest for row in frame.collect()])),
        name="batches",
    )(unchanged)

    assert runs.once(pipeline)
    flights.produce([flight("JFK", 1)])
    assert runs.once(pipeline)

    rows = ds.dataset(tmp_path / "files", partitioning="hive", exclude_invalid_files=True).to_table().to_pylist()
    assert sorted((row["dest"], row["delay"]) for row in rows) == [("JFK", 1), ("JFK", 20), ("LAX", 5)]
    assert rows[0].keys() == {"dest", "delay"}
    counts = [(record.key, record.value) for record in runs.topic(f"{name}-counts").records(1)[0]]
    assert sorted(counts) == [(b"JFK", b'{"count":1}'), (b"JFK", b'{"count":2}'), (b"LAX", b'{"count":1}')]
    assert batches == [["JFK", "LAX"], ["JFK"]]


def test_environments_share_only_what_they_read(
    runs: Runs, name: str, new_topic: Callable[..., Topic], tmp_path: Path
) -> None:
    """In an environment, groups, topics to write, paths and folders are its own; the topic that is read is the same."""
    flights = new_topic()
    flights.produce([flight("JFK", 20)])
    environments: list[str | None] = []

    def remember(frame: DataFrame, batch_id: int, environment: str | None) -> None:
        environments.append(environment)

    pipeline = Pipeline(name)
    source = topic(flights.name, decode=json(SCHEMA))
    pipeline.flow(source=source, sink=to_topic(f"{name}-out"), name="late")(unchanged)
    pipeline.flow(source=source, sink=to_files(str(tmp_path / "data" / "late")), name="files", bad_records="drop")(
        unchanged
    )
    pipeline.flow(source=source, sink=to_batches(remember), name="batches", bad_records="drop")(unchanged)

    assert runs.once(pipeline, "test")
    assert runs.once(pipeline)

    assert values(runs.topic(f"test.{name}-out")) == values(runs.topic(f"{name}-out")) == [{"dest": "JFK", "delay": 20}]
    assert flights.committed(f"test.{name}.late", 1) == flights.committed(f"{name}.late", 1) == [1]
    assert (tmp_path / "data" / "test" / "late").is_dir()
    assert (tmp_path / "data" / "late").is_dir()
    assert environments == ["test", None]
    assert runs.status(pipeline, "late", "test").environment == "test"


def test_where_flows_start(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """A flow starts at a time, at the end, where its own group is, or where another group is; the dead letters start at
    the same records, also when records arrive between the two starts."""
    flights = new_topic()
    flights.produce_records([{"value": f"bad {at}", "timestamp": at} for at in (1_000, 2_000, 3_000)])
    for group_id, offset in ((f"{name}.own", 2), (f"{name}-other", 1)):
        consumer = Consumer({"bootstrap.servers": flights.bootstrap_servers, "group.id": group_id})
        consumer.commit(offsets=[TopicPartition(flights.name, 0, offset)], asynchronous=False)
        consumer.close()
    pipeline = Pipeline(name)
    starts: dict[str, Any] = {
        "time": "1970-01-01T00:00:03+00:00",
        "own": "committed",
        "other": group(f"{name}-other"),
        "end": "latest",
    }
    for flow, start in starts.items():
        pipeline.flow(
            source=topic(flights.name, decode=json(SCHEMA), start=start), sink=to_topic(f"{name}-{flow}"), name=flow
        )(unchanged)

    run = runs.run(pipeline)
    flights.produce([])
    assert run.run()
    flights.produce(["bad at the end"])
    assert runs.once(pipeline)

    letters = {
        flow: [record.value for record in runs.topic(f"{name}.{flow}.dead-letters").records(1)[0]] for flow in starts
    }
    assert letters == {
        "time": [b"bad 3000", b"bad at the end"],
        "own": [b"bad 3000", b"bad at the end"],
        "other": [b"bad 2000", b"bad 3000", b"bad at the end"],
        "end": [b"bad at the end"],
    }


def test_a_join_of_two_topics(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """A flow with two sources has a group for each, and the dead letters of both in one topic."""
    orders, payments = new_topic(), new_topic()
    orders.produce(['{"id": 1, "what": "tea"}', "no order"])
    payments.produce(['{"id": 1, "paid": 5}', '{"id": 2, "paid": 7}', "no payment"])
    pipeline = Pipeline(name)

    @pipeline.flow(
        sources={
            "orders": topic(orders.name, decode=json("id int, what string")),
            "payments": topic(payments.name, decode=json("id int, paid int")),
        },
        sink=to_topic(f"{name}-paid"),
        check={"payments": "paid > 0"},
    )
    def paid(orders: DataFrame, payments: DataFrame) -> DataFrame:
        return orders.drop("_record").join(payments.drop("_record"), "id")

    assert runs.once(pipeline)

    assert values(runs.topic(f"{name}-paid")) == [{"id": 1, "what": "tea", "paid": 5}]
    letters = runs.topic(f"{name}.paid.dead-letters").records(1)[0]
    assert {letter.value for letter in letters} == {b"no order", b"no payment"}
    assert orders.committed(f"{name}.paid.orders", 1) == [2]
    assert payments.committed(f"{name}.paid.dead-letters.payments", 1) == [3]


def test_a_flow_that_fails_does_not_stop_the_others(
    runs: Runs, name: str, new_topic: Callable[..., Topic], tmp_path: Path
) -> None:
    """A flow whose code raises is restarted, and after its last restart it stops with a message that names the error
    and the offsets. The other flow goes on. The corrected flow continues with the same micro-batch."""
    flights = new_topic()
    flights.produce([flight("JFK", 20), flight("LAX", 0)])
    is_broken = tmp_path / "broken"
    is_broken.touch()

    def declared() -> Pipeline:
        pipeline = Pipeline(name, max_restarts=1)
        source = topic(flights.name, decode=json(SCHEMA))

        def ratio(flights: DataFrame) -> DataFrame:
            from pyspark.sql import functions as F

            @F.udf("double")
            def divided(delay):  # type: ignore[no-untyped-def]  # PySpark can't read annotations that are texts
                if is_broken.exists():
                    raise ZeroDivisionError("no delay at all")
                return 100 / (delay or 1)

            return flights.select(divided("delay").alias("ratio"))

        pipeline.flow(source=source, sink=to_topic(f"{name}-ratio"))(ratio)
        pipeline.flow(source=source, sink=to_topic(f"{name}-all"), name="all", bad_records="drop")(unchanged)
        return pipeline

    run = runs.run(declared())
    assert not run.run()

    message = run.flows[0].message
    assert message is not None
    assert message.startswith(
        "flow ratio stopped after 1 restart without progress: ZeroDivisionError: no delay at all in micro-batch 0 "
        f"(offsets {flights.name}-0 0 to 1). Remove the cause and run the pipeline again"
    )
    assert len(values(runs.topic(f"{name}-all"))) == 2
    status = runs.status(declared(), "ratio")
    assert (status.state, status.queries["flow"].restarts, status.queries["flow"].state) == ("failed", 1, "failed")
    assert status.queries["dead-letters"].state == "stopped"
    error = runs.folder / "checkpoints" / "_" / name / "ratio" / "error.txt"
    assert "Traceback" in error.read_text(encoding="utf-8")

    is_broken.unlink()
    assert runs.once(declared())
    assert values(runs.topic(f"{name}-ratio")) == [{"ratio": 5.0}, {"ratio": 100.0}]


def test_files_of_another_checkpoint_are_refused(
    runs: Runs, name: str, new_topic: Callable[..., Topic], tmp_path: Path
) -> None:
    """A flow with a new checkpoint does not write to the folder of files of an earlier one: Spark would skip its
    micro-batches. It says what to do, as the check does, and loses no record."""
    flights = new_topic()
    flights.produce([flight("JFK", delay) for delay in range(4)])
    path, checkpoints = tmp_path / "files", tmp_path / "checkpoints"
    pipeline = Pipeline(name)
    source = topic(flights.name, decode=json(SCHEMA), max_records_per_batch=1)
    pipeline.flow(source=source, sink=to_files(str(path)), bad_records="drop", name="late")(unchanged)
    assert runs.once(pipeline)
    assert runs.once(pipeline)
    shutil.rmtree(checkpoints)

    run = runs.run(pipeline)
    assert not run.run()
    message = run.flows[0].message or ""
    assert f"the files in {path} are of another checkpoint: their list ends with micro-batch 3" in message
    assert run.flows[0].queries["flow"].restarts.total == 0
    (check,) = [check_flow(runs.spark, runs.place(pipeline), flow) for flow in pipeline.flows.values()]
    assert [problem for problem in check.problems if "of another checkpoint" in problem]

    shutil.rmtree(path)
    assert runs.once(pipeline)
    assert sorted(row.delay for row in runs.spark.read.parquet(str(path)).collect()) == [0, 1, 2, 3]


def test_a_flow_that_is_declared_wrong_is_not_restarted(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """An error that a restart can't remove ends the flow at once: an unknown column, a column that the sink needs."""
    flights = new_topic()
    pipeline = Pipeline(name)
    source = topic(flights.name, decode=json(SCHEMA))
    pipeline.flow(source=source, sink=to_topic(f"{name}-a"), name="unknown")(lambda flights: flights.select("speed"))
    pipeline.flow(source=source, sink=to_topic(f"{name}-b", key="speed"), name="key")(unchanged)
    pipeline.flow(source=source, sink=to_topic(f"{name}-c"), name="nothing")(nothing)

    run = runs.run(pipeline)
    assert not run.run()

    messages = [flow.message or "" for flow in run.flows]
    assert "UNRESOLVED_COLUMN" in messages[0]
    assert "its function returns no such column, only dest, delay, _record" in messages[1]
    assert "its function returned None, and not a DataFrame" in messages[2]
    assert all(query.restarts.total == 0 for flow in run.flows for query in [flow.queries["flow"]])


def test_a_stop_file_ends_a_flow_after_its_micro_batch(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """A running flow ends when the stop file appears: its micro-batch is finished and committed, the file is gone, and
    the next run continues. Meanwhile a second run of the same flow is refused."""
    flights = new_topic()
    pipeline = Pipeline(name)
    pipeline.flow(source=topic(flights.name, decode=json(SCHEMA)), sink=to_topic(f"{name}-out"), name="late")(unchanged)
    run = runs.run(pipeline, once=False)
    background = Background(run)
    flights.produce([flight("JFK", at) for at in range(50)])
    background.wait_for(lambda: _read(runs, pipeline) == 50)

    with pytest.raises(PipelineError, match=r"runs the flow late already"):
        runs.run(pipeline)
    folder = Path(runs.place(pipeline).flow_folder("late"))
    (folder / STOP_FILE).touch()

    assert background.join() is True
    assert not (folder / STOP_FILE).exists()
    assert runs.status(pipeline, "late").state == "stopped"
    assert flights.committed(f"{name}.late", 1) == [50]
    flights.produce([flight("LAX", 1)])
    assert runs.once(pipeline)
    assert len(values(runs.topic(f"{name}-out"))) == 51


def _read(runs: Runs, pipeline: Pipeline) -> int:
    """Returns the number of records that the flow's status tells; 0 before it has one."""
    status = read_status(runs.place(pipeline).flow_folder("late"))
    return 0 if status is None else status.figures.records


class SlowDecoder(Decoder):
    """Decodes as `raw()`, needs some time to fix its schema, and counts how many queries do that at the same time."""

    name = "slow"

    def __init__(self) -> None:
        self.most = 0
        self._present = 0

    def pin(self, place: DecodingPlace) -> PinnedDecoder:
        self._present += 1
        self.most = max(self.most, self._present)
        time.sleep(0.5)
        self._present -= 1
        return raw().pin(place)


def test_the_two_queries_of_a_flow_start_one_after_the_other(
    runs: Runs, name: str, new_topic: Callable[..., Topic]
) -> None:
    """A flow's query and the query for its dead letters never determine the start and the schema at the same time, so
    that both have the same."""
    flights = new_topic()
    flights.produce(["1"])
    decoder = SlowDecoder()
    pipeline = Pipeline(name)
    pipeline.flow(source=topic(flights.name, decode=decoder), sink=to_topic(f"{name}-out"), name="copy")(unchanged)

    assert runs.once(pipeline)

    assert decoder.most == 1
