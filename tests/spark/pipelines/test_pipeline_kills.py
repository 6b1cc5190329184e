"""Kills `klamm pipeline run` at random moments while records arrive and partitions are added, and compares all outputs
with the input as multisets: a topic, files, the result of a stateful flow, and dead letters.

`make test` kills once. `make faults` kills for ten minutes: PIPELINE_KILLS_SECONDS sets the duration,
PIPELINE_KILLS_SEED the seed, which each run prints.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.files_of_sink import committed_rows
from tests.support.number_traffic import NumberTraffic, Origin
from tests.support.patience import Limit
from tests.support.pipeline_process import PipelineProcess
from tests.support.spark_topics import Topic

SECONDS = float(os.environ.get("PIPELINE_KILLS_SECONDS", "0"))
SEED = int(os.environ.get("PIPELINE_KILLS_SEED", str(time.time_ns() % 1_000_000)))
_PARTITIONS = 2
_ROUND_S = 120.0
_GROWTH_S = 30.0
_PATIENCE_S = 300.0
_FILE = """
from pyspark.sql import DataFrame

from klamm.pipelines import Pipeline, json, to_files, to_topic, topic

# A flow's first start fails if partitions are added meanwhile, which is likely on a busy machine.
pipeline = Pipeline("{name}", max_restarts=50, conf={{
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "spark.sql.shuffle.partitions": 2
}})
source = topic("{topic}", decode=json("number int"), max_records_per_batch=1000)
columns = ("_record.partition AS partition", "_record.offset AS offset", "number")


@pipeline.flow(source=source, sink=to_topic("{topic}-copied"), check="number >= 0")
def copied(numbers: DataFrame) -> DataFrame:
    return numbers.selectExpr(*columns)


@pipeline.flow(source=source, sink=to_files("{folder}/files"), check="number >= 0")
def filed(numbers: DataFrame) -> DataFrame:
    return numbers.selectExpr(*columns)


@pipeline.flow(source=source, sink=to_topic("{topic}-distinct"), check="number >= 0", bad_records="drop")
def distinct(numbers: DataFrame) -> DataFrame:
    return numbers.select("number").dropDuplicates()
"""


class Killed:
    """A pipeline whose runs are killed."""

    def __init__(self, name: str, topic: Topic, folder: Path, source: random.Random) -> None:
        self.name = name
        self.topic = topic
        self.folder = folder
        self.runs: list[PipelineProcess] = []
        self.kills: Counter[str] = Counter()
        self._random = source
        self._start_took_s = 10.0
        (folder / "pipeline.py").write_text(_FILE.format(name=name, topic=topic.name, folder=folder), encoding="utf-8")

    def start(self, *more: str) -> PipelineProcess:
        words = ["run", "pipeline.py", "--master", "local[2]", "-b", self.topic.bootstrap_servers, *more]
        run = PipelineProcess(self.folder, words)
        self.runs.append(run)
        return run

    def kill_one(self) -> None:
        """Starts a run, waits for a random moment, and kills its whole group, only its JVM, or only Python.

        The first kill is always one of the group in the first micro-batch.
        """
        before = self._micro_batches()
        began, run = time.monotonic(), self.start()
        moments, victims = {"start-up": 2, "first micro-batch": 3, "running": 2, "micro-batch": 3}, [6, 2, 2]
        moment = self._random.choices(list(moments), list(moments.values()))[0] if self.kills else "first micro-batch"
        if moment == "start-up":
            time.sleep(self._random.uniform(0, self._start_took_s))
        if moment in ("running", "micro-batch"):
            self._until(lambda: self._is_ready(run), run)
            self._start_took_s = time.monotonic() - began
            time.sleep(self._random.uniform(0, 6))
            before = self._micro_batches()
        if moment in ("first micro-batch", "micro-batch"):
            self._until(lambda: self._micro_batches() != before, run)
            time.sleep(self._random.choice([0, self._random.uniform(0, 0.5)]))
        assert run.is_running, run.text()
        victim = self._random.choices(["group", "jvm", "python"], victims)[0] if self.kills else "group"
        self.kills[f"{victim} while {moment}"] += 1
        if victim == "python":
            run.kill_python()
        elif victim == "jvm" and run.jvms():
            run.kill_jvm()
            assert run.wait(_PATIENCE_S) == 1, run.text()
        else:
            run.kill()

    def records(self, name: str) -> list[Any]:
        """Returns the committed records of a topic."""
        topic = Topic(name, self.topic.bootstrap_servers, self.topic.admin)
        return [record for records in topic.records(1) for record in records]

    def dead_letters(self, flow: str) -> Counter[tuple[Origin, str | None]]:
        """Returns the origins and the values of a flow's dead letters."""
        found: Counter[tuple[Origin, str | None]] = Counter()
        for record in self.records(f"{self.name}.{flow}.dead-letters"):
            headers = dict(record.headers)
            origin = Origin(int(headers["klamm.partition"] or b""), int(headers["klamm.offset"] or b""))
            found[origin, None if record.value is None else record.value.decode()] += 1
        return found

    def status(self, flow: str) -> dict[str, Any]:
        path = self._flow_folder(flow) / "status.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def _is_ready(self, run: PipelineProcess) -> bool:
        statuses = [self.status(flow) for flow in ("copied", "filed", "distinct")]
        return all(
            status and status["runner"]["pid"] == run.pid and status["state"] == "running" for status in statuses
        )

    def _micro_batches(self) -> set[str]:
        """Returns the files that Spark writes at the start and the end of the micro-batches of all queries."""
        found: set[str] = set()
        for checkpoint in self._flow_folder("").glob("**/checkpoint"):
            for log in ("offsets", "commits"):
                with contextlib.suppress(FileNotFoundError):
                    found |= {f"{checkpoint}/{log}/{name}" for name in os.listdir(checkpoint / log)}
        return found

    def _flow_folder(self, flow: str) -> Path:
        return self.folder / "klamm-pipelines" / "_" / self.name / flow

    def _until(self, is_so: Callable[[], bool], run: PipelineProcess) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not is_so():
            assert run.is_running, run.text()
            assert time.monotonic() < deadline, run.text()
            time.sleep(0.005)


@pytest.fixture
def new_pipeline(new_topic: Callable[..., Topic], tmp_path: Path) -> Iterator[Callable[[random.Random], Killed]]:
    """Returns a function that makes a pipeline with a topic of its own, and ends what is left of its runs."""
    made: list[Killed] = []

    def make(source: random.Random) -> Killed:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Killed(f"kills-{uuid.uuid4().hex[:8]}", new_topic(_PARTITIONS), folder, source))
        return made[-1]

    yield make
    for killed in made:
        for run in killed.runs:
            run.kill()


@pytest.mark.timeout(600 + 4 * SECONDS)
def test_each_record_is_written_once_whenever_a_run_is_killed(
    new_pipeline: Callable[[random.Random], Killed],
) -> None:
    """Runs are killed while they start, read and commit. After the last run each good record is in the topic and in the
    files once, each number once in the result of the stateful flow, and each bad record once in the dead letters. The
    groups are at the end of the topic. No JVM outlives its Python process. Every two minutes, another pipeline begins
    with its first micro-batch."""
    print(f"PIPELINE_KILLS_SEED={SEED}")
    source, ends_at, is_first = random.Random(SEED), time.monotonic() + SECONDS, True
    while is_first or time.monotonic() < ends_at:
        is_first = False
        _kill_and_compare(new_pipeline(source), source, min(ends_at, time.monotonic() + _ROUND_S))


def _kill_and_compare(killed: Killed, source: random.Random, ends_at: float) -> None:
    traffic = NumberTraffic(killed.topic, random.Random(source.random()), partitions=_PARTITIONS, growth_s=_GROWTH_S)
    while not killed.kills or time.monotonic() < ends_at:
        killed.kill_one()
    traffic.stop()
    last = killed.start("--once")
    assert last.wait(_PATIENCE_S) == 0, last.text()
    print(f"{len(traffic.acknowledged)} records in {traffic.partitions} partitions, {dict(killed.kills)}", flush=True)

    good = Counter(traffic.good())
    copied = [json.loads(record.value) for record in killed.records(f"{killed.topic.name}-copied")]
    _compare("the topic", good, Counter((row["partition"], row["offset"], row["number"]) for row in copied))
    columns = ["partition", "offset", "number"]
    _compare("the files", good, Counter(committed_rows(killed.folder / "files", columns)))
    distinct = [json.loads(record.value)["number"] for record in killed.records(f"{killed.topic.name}-distinct")]
    _compare("the stateful flow", Counter({number for _, _, number in good}), Counter(distinct))
    bad = Counter(traffic.bad().items())
    for flow in ("copied", "filed"):
        _compare(f"the dead letters of {flow}", bad, killed.dead_letters(flow))
    ends = killed.topic.ends(traffic.partitions)
    for group in ("copied", "copied.dead-letters", "filed", "filed.dead-letters", "distinct"):
        assert killed.topic.committed(f"{killed.name}.{group}", traffic.partitions) == ends, group
    # A JVM ends itself when its Python process has ended, which takes a moment.
    limit = Limit(60)
    while left := [pid for run in killed.runs for pid in run.jvms()]:
        assert not limit.is_over, f"these JVMs have outlived their Python process: {left}"
        time.sleep(0.1)


def _compare(what: str, expected: Counter[Any], found: Counter[Any]) -> None:
    for word, difference in (("missing", expected - found), ("too many", found - expected)):
        shown = sorted(difference.items(), key=str)[:10]
        assert not difference, f"seed {SEED}, {what}: {difference.total()} {word}: {shown}"
