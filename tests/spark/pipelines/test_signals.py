"""Tests that a signal ends a run or a replay after its micro-batch, and not within it."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.patience import Limit
from tests.support.pipeline_process import PipelineProcess
from tests.support.spark_topics import Topic

from klamm.cli.main import INTERRUPTED

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

_REPLAYABLE = """
import time
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.functions import udf
from pyspark.sql.types import IntegerType

from klamm.pipelines import Pipeline, dead_letters, json, to_topic, topic

pipeline = Pipeline("numbers", conf={{
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "spark.sql.shuffle.partitions": 1
}})
folder = Path("{folder}")


@udf(IntegerType())
def held(number: int) -> int:
    (folder / "entered").touch()
    while not (folder / "may-go-on").exists():
        time.sleep(0.1)
    return number


@pipeline.flow(
    source=topic("{{topic}}", decode=json("number int"), max_records_per_batch=1), sink=to_topic("{output}"),
    check="{check}", bad_records=dead_letters("{letters}"),
)
def slow(numbers: DataFrame) -> DataFrame:
    return numbers.select(held("number").alias("number"))
"""


@pytest.fixture
def start(tmp_path: Path, new_topic: Callable[..., Topic]) -> Iterator[Callable[..., PipelineProcess]]:
    """Returns a function that starts a run, whose first micro-batch of two waits for a file."""
    topic = new_topic()
    topic.produce(['{"number": 1}', '{"number": 2}'])
    started: list[PipelineProcess] = []

    def run(*words: str, file: str = _FILE) -> PipelineProcess:
        (tmp_path / "slow.py").write_text(file.format(topic=topic.name), encoding="utf-8")
        verb, *others = words or ("run",)
        options = ("--master", "local[1]", "-b", topic.bootstrap_servers)
        started.append(PipelineProcess(tmp_path, [verb, "slow.py", *others, *options]))
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
    start: Callable[..., PipelineProcess], tmp_path: Path, number: signal.Signals
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
def test_a_second_signal_ends_a_run_at_once(start: Callable[..., PipelineProcess], tmp_path: Path) -> None:
    """The second signal does not wait for the micro-batch, which stays unfinished and is repeated by the next run. The
    status of the command is 130."""
    run = start()
    wait_for(run, (tmp_path / "entered").exists)
    run.send_signal(signal.SIGTERM)
    wait_for(run, lambda: "stopping after the micro-batch" in run.text())
    run.send_signal(signal.SIGTERM)

    assert run.wait(_PATIENCE_S) == INTERRUPTED, run.text()
    assert not (tmp_path / "written").exists()
    checkpoint = tmp_path / "klamm-pipelines" / "_" / "numbers" / "slow" / "checkpoint"
    assert (checkpoint / "offsets" / "0").exists()
    assert not (checkpoint / "commits" / "0").exists()


@pytest.mark.timeout(900)
def test_a_signal_ends_a_replay_after_its_micro_batch(
    start: Callable[..., PipelineProcess], new_topic: Callable[..., Topic], tmp_path: Path
) -> None:
    """The dead letter of the micro-batch is replayed, and no other one. The replay does not count as running."""
    output, letters = new_topic(), new_topic()

    def replayable(check: str) -> str:
        text = _REPLAYABLE.format(folder=tmp_path, output=output.name, check=check, letters=letters.name)
        return text.replace("{", "{{").replace("}", "}}").replace("{{topic}}", "{topic}")

    (tmp_path / "may-go-on").touch()
    first = start("run", "--once", file=replayable("number > 2"))
    assert first.wait(_PATIENCE_S) == 0, first.text()
    (tmp_path / "may-go-on").unlink()
    (tmp_path / "entered").unlink(missing_ok=True)
    replay = start("replay", "--dead-letters", file=replayable("number > 0"))
    wait_for(replay, (tmp_path / "entered").exists)
    replay.send_signal(signal.SIGTERM)
    wait_for(replay, lambda: "stopping after the micro-batch" in replay.text())
    (tmp_path / "may-go-on").touch()

    assert replay.wait(_PATIENCE_S) == 0, replay.text()
    assert "flow slow: 1 dead letter replayed, 0 of them still bad" in replay.text()
    (status,) = (tmp_path / "klamm-pipelines").rglob("slow.replay/status.json")
    assert '"running"' not in status.read_text()
