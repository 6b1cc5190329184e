"""Tests runs of pipelines in trouble: a flow that fails or is slow next to others, a broker that goes and comes back, a
schema that changes, a topic that grows, a disk that is full, and a folder that can't be written."""

from __future__ import annotations

import json as standard_json
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient
from tests.interop.broker_process import BrokerProcess
from tests.spark.pipelines.conftest import Background, Runs
from tests.support.kafka_broker import ApacheKafka
from tests.support.small_disk import fill, small_disk
from tests.support.spark_topics import Topic, create_topic

from klamm.pipelines import Pipeline, PipelineError, json, to_batches, to_topic, topic
from klamm.pipelines.run.flow_check import check_flow
from klamm.pipelines.run.flow_run import STOP_FILE
from klamm.pipelines.run.pipeline_run import PipelineRun, chosen_flows
from klamm.pipelines.run.place import Place
from klamm.pipelines.status.flow_status import FlowStatus, Runner, read_status
from klamm.testing import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "number int"
_PATIENCE_S = 240


def number(value: int) -> str:
    return standard_json.dumps({"number": value})


def unchanged(numbers: DataFrame) -> DataFrame:
    return numbers


def numbers_in(topic: Topic, partitions: int = 1) -> Counter[int]:
    return Counter(
        standard_json.loads(record.value or b"")["number"]
        for records in topic.records(partitions)
        for record in records
    )


def status_of(runs: Runs, pipeline: Pipeline, flow: str) -> FlowStatus:
    """Returns the status that the file tells now, or that of a flow that starts if there is no file yet."""
    found = read_status(runs.place(pipeline).flow_folder(flow))
    if found is not None:
        return found
    runner = Runner.this_process("none")
    return FlowStatus(pipeline.name, flow, None, "starting", runner, once=False, started_ms=0, updated_ms=0)


def test_a_flow_that_fails_waits_while_another_goes_on(
    runs: Runs, name: str, new_topic: Callable[..., Topic], tmp_path: Path
) -> None:
    """While a flow waits for its restart, its status tells the error, and the other flow reads what arrives. When the
    cause is removed, the flow goes on in the same run."""
    numbers = new_topic()
    is_broken = tmp_path / "broken"
    is_broken.touch()

    def write(frame: DataFrame, batch_id: int) -> None:
        if is_broken.exists():
            raise OSError("the table is locked")
        written.extend(row.number for row in frame.collect())

    written: list[int] = []
    pipeline = Pipeline(name, max_restarts=50)
    source = topic(numbers.name, decode=json(SCHEMA))
    pipeline.flow(source=source, sink=to_batches(write), name="broken", bad_records="drop")(unchanged)
    pipeline.flow(source=source, sink=to_topic(f"{name}-out"), name="fine", bad_records="drop")(unchanged)
    numbers.produce([number(0)])
    background = Background(runs.run(pipeline, once=False))
    background.wait_for(lambda: status_of(runs, pipeline, "broken").state == "waiting to restart")

    status = status_of(runs, pipeline, "broken")
    assert status.error == "OSError: the table is locked"
    assert status.figures.restarts > 0
    numbers.produce([number(1)])
    background.wait_for(lambda: status_of(runs, pipeline, "fine").figures.records == 2)
    assert status_of(runs, pipeline, "fine").state == "running"
    is_broken.unlink()
    background.wait_for(lambda: written == [0, 1])
    background.wait_for(lambda: status_of(runs, pipeline, "broken").error is None)
    background.run.request_stop()

    assert background.join() is True
    assert numbers_in(runs.topic(f"{name}-out")) == Counter([0, 1])


def test_a_slow_flow_delays_no_other(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """While a micro-batch of one flow takes long, the status of the other flow is written, and a request to stop ends
    the other flow. The slow flow ends after its micro-batch, not within it."""
    numbers = new_topic()
    entered, may_go_on = threading.Event(), threading.Event()

    def write(frame: DataFrame, batch_id: int) -> None:
        entered.set()
        assert may_go_on.wait(_PATIENCE_S)

    pipeline = Pipeline(name)
    source = topic(numbers.name, decode=json(SCHEMA))
    pipeline.flow(source=source, sink=to_batches(write), name="slow", bad_records="drop")(unchanged)
    pipeline.flow(source=source, sink=to_topic(f"{name}-out"), name="quick", bad_records="drop")(unchanged)
    numbers.produce([number(0)])
    background = Background(runs.run(pipeline, once=False))
    assert entered.wait(_PATIENCE_S)

    numbers.produce([number(1)])
    background.wait_for(lambda: status_of(runs, pipeline, "quick").figures.records == 2)
    Path(runs.place(pipeline).flow_folder("quick"), STOP_FILE).touch()
    background.wait_for(lambda: status_of(runs, pipeline, "quick").state == "stopped")
    background.run.request_stop()
    background.wait_for(lambda: status_of(runs, pipeline, "slow").state == "stopping")
    may_go_on.set()

    assert background.join() is True
    assert status_of(runs, pipeline, "slow").figures.batch_id == 0
    assert numbers.committed(f"{name}.quick", 1) == [2]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """Runs a broker that a test can stop and start."""
    with Broker(tmp_path / "data") as broker:
        yield broker


def run_at(bootstrap_servers: str, spark: SparkSession, pipeline: Pipeline, folder: Path) -> PipelineRun:
    place = Place.at(pipeline.name, bootstrap_servers=bootstrap_servers, checkpoints=str(folder))
    return PipelineRun(spark, pipeline, place, chosen_flows(pipeline, []), once=False)


def test_a_pipeline_outlives_its_broker(
    runs: Runs, name: str, mortal: BrokerProcess | ApacheKafka, tmp_path: Path
) -> None:
    """While the broker is gone after kill -9, in the middle of the work or without any, the pipeline waits or restarts
    its queries, each at most five times. When the broker is back, the pipeline goes on, and each record is in the
    output or in the dead letters once.

    The first failure comes ten seconds after the broker has gone here, by default after a minute."""
    admin = AdminClient({"bootstrap.servers": mortal.bootstrap_servers})
    numbers = create_topic(admin, mortal.bootstrap_servers, "numbers", 2, {})
    pipeline = Pipeline(name)
    short = {"kafka.default.api.timeout.ms": "10000"}
    source = topic("numbers", decode=json(SCHEMA), max_records_per_batch=10, options=short)
    pipeline.flow(source=source, sink=to_topic("out"), name="copy")(unchanged)
    numbers.produce([*map(number, range(50)), "no JSON"])
    run = run_at(mortal.bootstrap_servers, runs.spark, pipeline, tmp_path / "checkpoints")
    background = Background(run)

    def records() -> list[int]:
        return [run.flows[0].status().queries[role].records for role in ("flow", "dead-letters")]

    background.wait_for(lambda: records()[0] > 0)
    mortal.kill()
    assert not run.flows[0].is_over
    mortal.restart()
    background.wait_for(lambda: records() == [51, 51])
    mortal.kill()
    background.wait_for(lambda: all(query.restarts.count >= 1 for query in run.flows[0].queries.values()))
    mortal.restart()
    numbers.produce([*map(number, range(50, 80)), "nor this"])
    background.wait_for(lambda: records() == [82, 82])
    run.request_stop()

    assert background.join() is True
    out, letters = (Topic(each, mortal.bootstrap_servers, admin) for each in ("out", f"{name}.copy.dead-letters"))
    assert numbers_in(out) == Counter(range(80))
    assert sorted(letter.value or b"" for letter in letters.records(1)[0]) == [b"no JSON", b"nor this"]


def test_a_pipeline_outlives_a_full_disk(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """While the disk of the checkpoints is full, the flow and its dead letters restart, each at most five times. When
    there is room again, they go on, and each record is in the output or in the dead letters once."""
    numbers = new_topic()
    pipeline = Pipeline(name)
    pipeline.flow(source=topic(numbers.name, decode=json(SCHEMA)), sink=to_topic(f"{name}-out"), name="copy")(unchanged)
    with small_disk(runs.folder / "checkpoints", 2048) as disk:
        run = runs.run(pipeline, once=False)
        background = Background(run)

        def records() -> list[int]:
            return [query.records for query in run.flows[0].status().queries.values()]

        numbers.produce([number(0), "no JSON"])
        background.wait_for(lambda: records() == [2, 2])
        fill(disk / "file")
        numbers.produce([number(1), "nor this"])
        background.wait_for(lambda: run.flows[0].queries["flow"].restarts.count >= 2)
        (disk / "file").unlink()
        background.wait_for(lambda: records() == [4, 4])
        run.request_stop()

        assert background.join() is True
        assert runs.status(pipeline, "copy").state == "stopped"
    assert numbers_in(runs.topic(f"{name}-out")) == Counter([0, 1])
    letters = runs.topic(f"{name}.copy.dead-letters").records(1)[0]
    assert sorted(letter.value or b"" for letter in letters) == [b"no JSON", b"nor this"]


def test_a_stop_without_the_cluster(runs: Runs, name: str, broker: Broker, tmp_path: Path) -> None:
    """A pipeline whose cluster is down says that it is starting, and a request to stop ends it within seconds."""
    pipeline = Pipeline(name)
    pipeline.flow(source=topic("numbers", decode=json(SCHEMA)), sink=to_topic("out"), name="copy")(unchanged)
    run = run_at(broker.bootstrap_servers, runs.spark, pipeline, tmp_path / "checkpoints")
    broker.stop()
    background = Background(run)
    folder = run.flows[0]._folder
    background.wait_for(lambda: getattr(read_status(folder), "state", None) == "starting")

    Path(folder, STOP_FILE).touch()

    assert background.join() is True
    status = read_status(folder)
    assert status is not None
    assert (status.state, status.figures.restarts) == ("stopped", 0)


def test_fields_that_appear_or_change(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """An inferred schema stays as it was in the first run. A field that appears later is ignored, and a record whose
    field has another type is a dead letter that names the field. `check` shows the stored columns."""
    numbers = new_topic()
    pipeline = Pipeline(name)
    pipeline.flow(source=topic(numbers.name, decode=json()), sink=to_topic(f"{name}-out"), name="copy")(unchanged)
    numbers.produce(['{"number": 1}'])
    assert runs.once(pipeline)
    numbers.produce(['{"number": 2, "colour": "red"}', '{"number": "three"}'])

    assert runs.once(pipeline)

    assert [record.value for record in runs.topic(f"{name}-out").records(1)[0]] == [b'{"number":1}', b'{"number":2}']
    (letter,) = runs.topic(f"{name}.copy.dead-letters").records(1)[0]
    reason = dict(letter.headers)["klamm.reason"]
    assert reason is not None
    assert b"number" in reason
    check = check_flow(runs.spark, runs.place(pipeline), pipeline.flows["copy"])
    assert check.sources[0].columns is not None
    assert "colour" not in check.sources[0].columns


def test_a_topic_that_grows(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """A running pipeline reads partitions that are added from their start, in the flow and in its dead letters."""
    numbers = new_topic(1)
    pipeline = Pipeline(name)
    source = topic(numbers.name, decode=json(SCHEMA), start="latest")
    pipeline.flow(source=source, sink=to_topic(f"{name}-out"), name="copy")(unchanged)
    numbers.produce([number(-1)])
    run = runs.run(pipeline, once=False)
    background = Background(run)

    def lags() -> list[int | None]:
        return [query.lag_records for query in run.flows[0].status().queries.values()]

    background.wait_for(lambda: lags() == [0, 0])
    numbers.grow(3)
    for partition in range(3):
        numbers.produce([number(partition), f"bad {partition}"], partition)
    background.wait_for(lambda: [each.records for each in run.flows[0].status().queries.values()] == [6, 6])
    run.request_stop()

    assert background.join() is True
    assert numbers_in(runs.topic(f"{name}-out")) == Counter(range(3))
    letters = runs.topic(f"{name}.copy.dead-letters").records(1)[0]
    assert sorted(letter.value or b"" for letter in letters) == [b"bad 0", b"bad 1", b"bad 2"]
    assert numbers.committed(f"{name}.copy") == numbers.committed(f"{name}.copy.dead-letters") == numbers.ends()


def test_a_kill_in_the_first_write_of_a_checkpoint(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """A kill while Spark writes the offsets of the first micro-batch leaves a temporary file, for which Spark would
    refuse the checkpoint for ever. The next run removes it, and starts at the stored start."""
    numbers = new_topic()
    pipeline = Pipeline(name, max_restarts=0)
    pipeline.flow(source=topic(numbers.name, decode=json(SCHEMA)), sink=to_topic(f"{name}-out"), name="copy")(unchanged)
    numbers.produce([number(0), "no JSON"])
    place = runs.place(pipeline)
    left = [
        Path(checkpoint, "offsets", ".0.18d6d117-590d-44ae-ab52-d6b6d1da4314.tmp")
        for checkpoint in (place.checkpoint("copy"), place.dead_letters_checkpoint("copy"))
    ]
    for file in left:
        file.parent.mkdir(parents=True)
        file.write_text("v1", encoding="utf-8")

    assert runs.once(pipeline)

    assert not any(file.exists() for file in left)
    assert numbers_in(runs.topic(f"{name}-out")) == Counter([0])
    assert len(runs.topic(f"{name}.copy.dead-letters").records(1)[0]) == 1


def test_a_first_micro_batch_that_is_repeated(
    runs: Runs, name: str, new_topic: Callable[..., Topic], tmp_path: Path
) -> None:
    """A first micro-batch that was planned and did not finish is repeated from the flow's stored start. The file of the
    source with the start may be missing: the source writes it only if the driver answers in time."""
    numbers = new_topic()
    numbers.produce(map(number, range(10)))
    is_broken = tmp_path / "broken"
    is_broken.touch()
    written: list[int] = []

    def write(frame: DataFrame, batch_id: int) -> None:
        if is_broken.exists():
            raise OSError("the table is locked")
        written.extend(row.number for row in frame.collect())

    pipeline = Pipeline(name, max_restarts=0)
    source = topic(numbers.name, decode=json(SCHEMA))
    pipeline.flow(source=source, sink=to_batches(write), name="copy", bad_records="drop")(unchanged)
    assert not runs.once(pipeline)
    checkpoint = Path(runs.place(pipeline).checkpoint("copy"))
    assert (checkpoint / "offsets" / "0").exists()
    shutil.rmtree(checkpoint / "sources")
    is_broken.unlink()
    numbers.produce([number(10)])

    assert runs.once(pipeline)

    assert written == list(range(11))


def test_a_folder_that_can_not_be_written(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """A folder of checkpoints that can't be written or read is an error that names it, before a query starts."""
    pipeline = Pipeline(name)
    pipeline.flow(source=topic(new_topic().name, decode=json(SCHEMA)), sink=to_topic(f"{name}-out"), name="copy")(
        unchanged
    )
    run = runs.run(pipeline)
    (runs.folder / "checkpoints").touch()

    with pytest.raises(PipelineError, match=r"the folder of flow copy can't be written: .*--checkpoints"):
        run.run()
    with pytest.raises(PipelineError, match=r"the status of flow copy can't be read"):
        runs.run(pipeline)
    assert not runs.spark.streams.active


def test_a_request_to_stop_that_can_not_be_written(runs: Runs, name: str, new_topic: Callable[..., Topic]) -> None:
    """If the request to stop can't be written, as on a full disk, the flow ends at once, and the next run goes on."""
    numbers = new_topic()
    pipeline = Pipeline(name)
    source = topic(numbers.name, decode=json(SCHEMA))
    pipeline.flow(source=source, sink=to_topic(f"{name}-out"), name="copy", bad_records="drop")(unchanged)
    numbers.produce([number(0)])
    run = runs.run(pipeline, once=False)
    background = Background(run)
    background.wait_for(lambda: run.flows[0].status().figures.records == 1)
    obstacle = Path(runs.place(pipeline).flow_folder("copy"), STOP_FILE)
    obstacle.mkdir()
    (obstacle / "file").touch()

    run.request_stop()

    assert background.join() is True
    with pytest.raises(PipelineError, match=r"an old request to stop, .*, can't be removed"):
        runs.run(pipeline)
    (obstacle / "file").unlink()
    obstacle.rmdir()
    numbers.produce([number(1)])
    assert runs.once(pipeline)
    assert numbers_in(runs.topic(f"{name}-out")) == Counter([0, 1])
