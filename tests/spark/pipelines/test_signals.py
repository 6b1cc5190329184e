"""Tests that a signal ends a run after its micro-batch, and not within it."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.patience import Limit
from tests.support.pipeline_process import PipelineProcess
from tests.support.spark_topics import Topic

_PATIENCE_S = 240
_FILE = """
import time
from pathlib import Path

from pyspark.sql import DataFrame

from klamm.pipelines import Pipeline, json, to_batches, topic

pipeline = Pipeline("numbers", conf={{
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "spark.sql.shuffle.partitions": 1
}})


def write(numbers: DataFrame, batch_id: int) -> None:
    Path("entered").touch()
    while not Path("may-go-on").exists():
        time.sleep(0.1)
    with Path("written").open("a") as file:
        file.writelines(f"{{row.number}}\\n" for row in numbers.collect())


@pipeline.flow(
    source=topic("{topic}", decode=json("number int"), max_records_per_batch=1), sink=to_batches(write),
    bad_records="drop",
)
def slow(numbers: DataFrame) -> DataFrame:
    return numbers
"""


@pytest.fixture
def start(tmp_path: Path, new_topic: Callable[..., Topic]) -> Iterator[Callable[[], PipelineProcess]]:
    """Returns a function that starts a run, whose first micro-batch of two waits for a file."""
    topic = new_topic()
    topic.produce(['{"number": 1}', '{"number": 2}'])
    (tmp_path / "slow.py").write_text(_FILE.format(topic=topic.name), encoding="utf-8")
    started: list[PipelineProcess] = []

    def run() -> PipelineProcess:
        options = ("--master", "local[1]", "-b", topic.bootstrap_servers)
        started.append(PipelineProcess(tmp_path, ["run", "slow.py", *options]))
        return started[-1]

    yield run
    for process in started:
        process.kill()


def wait_for(process: PipelineProcess, is_so: Callable[[], bool]) -> None:
    limit = Limit(_PATIENCE_S)
    while not is_so():
        assert process.is_running, process.text()
        assert not limit.is_over, process.text()
        time.sleep(0.1)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_after_its_micro_batch(
    start: Callable[[], PipelineProcess], tmp_path: Path, number: signal.Signals
) -> None:
    """A signal that comes within a micro-batch lets it end: its rows are written, and Spark commits it. No other one
    begins. The status of the command is 0."""
    run = start()
    wait_for(run, (tmp_path / "entered").exists)
    run.send_signal(number)
    wait_for(run, lambda: "stopping after the micro-batch" in run.text())
    (tmp_path / "may-go-on").touch()

    assert run.wait(_PATIENCE_S) == 0, run.text()
    assert (tmp_path / "written").read_text() == "1\n"
    checkpoint = tmp_path / "klamm-pipelines" / "_" / "numbers" / "slow" / "checkpoint"
    for folder in ("offsets", "commits"):
        assert [each.name for each in (checkpoint / folder).iterdir() if each.name.isdecimal()] == ["0"]


@pytest.mark.timeout(600)
def test_a_second_signal_ends_a_run_at_once(start: Callable[[], PipelineProcess], tmp_path: Path) -> None:
    """The second signal does not wait for the micro-batch, which stays unfinished and is repeated by the next run."""
    run = start()
    wait_for(run, (tmp_path / "entered").exists)
    run.send_signal(signal.SIGTERM)
    wait_for(run, lambda: "stopping after the micro-batch" in run.text())
    run.send_signal(signal.SIGTERM)

    run.wait(_PATIENCE_S)
    assert not (tmp_path / "written").exists()
    checkpoint = tmp_path / "klamm-pipelines" / "_" / "numbers" / "slow" / "checkpoint"
    assert (checkpoint / "offsets" / "0").exists()
    assert not (checkpoint / "commits" / "0").exists()
