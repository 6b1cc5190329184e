"""Tests several pipelines at once on one machine, each in a process of its own."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.pipeline_process import PipelineProcess
from tests.support.spark_topics import Topic

_PATIENCE_S = 240
_FILE = """
from pyspark.sql import DataFrame

from klamm.pipelines import Pipeline, json, to_topic, topic

pipeline = Pipeline("{name}", conf={{
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "spark.sql.shuffle.partitions": 1
}})


@pipeline.flow(
    source=topic("{topic}", decode=json("number int")), sink=to_topic("{topic}{suffix}-out"), bad_records="drop"
)
def copied(numbers: DataFrame) -> DataFrame:
    return numbers
"""


@pytest.fixture
def start(tmp_path: Path, topic: Topic) -> Iterator[Callable[..., PipelineProcess]]:
    """Returns a function that starts `klamm pipeline run`, by default in an environment; all share a folder."""
    for file, name, suffix in (("pipeline", "numbers", ""), ("other", "others", "-other")):
        text = _FILE.format(topic=topic.name, name=name, suffix=suffix)
        (tmp_path / f"{file}.py").write_text(text, encoding="utf-8")
    started: list[PipelineProcess] = []

    def run(environment: str | None, *more: str, file: str = "pipeline.py") -> PipelineProcess:
        chosen = () if environment is None else ("--env", environment)
        options = ("--master", "local[1]", "-b", topic.bootstrap_servers, *chosen, *more)
        started.append(PipelineProcess(tmp_path, ["run", file, *options]))
        return started[-1]

    yield run
    for process in started:
        process.kill()


def _wait_until_read(
    folder: Path, environment: str, records: int, process: PipelineProcess, pipeline: str = "numbers"
) -> None:
    file = folder / "klamm-pipelines" / environment / pipeline / "copied" / "status.json"
    deadline = time.monotonic() + _PATIENCE_S
    while not file.exists() or json.loads(file.read_text())["queries"]["flow"]["records"] < records:
        assert process.is_running, process.text()
        assert time.monotonic() < deadline, process.text()
        time.sleep(0.1)


def test_two_runs_at_once(start: Callable[..., PipelineProcess], topic: Topic, tmp_path: Path) -> None:
    """A pipeline runs in two environments at once, from two processes with the same folder. Each has web interface,
    figures and outputs of its own. A port for figures that is taken is a clear error, before Spark starts."""
    topic.produce([json.dumps({"number": number}) for number in range(20)])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = start("blue", "--metrics", str(port))
        assert refused.wait(_PATIENCE_S) == 1
    assert f"klamm pipeline: --metrics: 127.0.0.1:{port} can't be listened on" in refused.text()
    assert "Traceback" not in refused.text()
    assert "Spark" not in refused.text()

    runs = {name: start(name, "--ui", "--metrics", "0") for name in ("blue", "green")}
    for name, run in runs.items():
        _wait_until_read(tmp_path, name, 20, run)

    told = runs["blue"].log.read_text(encoding="utf-8")
    addresses = [line.rpartition(" at ")[2] for line in told.splitlines() if " at http" in line]
    assert len(set(addresses)) == 4
    status = [sys.executable, "-m", "klamm.cli", "pipeline", "status", "pipeline.py", "-b", topic.bootstrap_servers]
    for name, run in runs.items():
        shown = subprocess.run([*status, "--env", name, "-o", "json"], cwd=tmp_path, capture_output=True, check=True)
        (row,) = json.loads(shown.stdout)
        assert (row["state"], row["pid"]) == ("running", run.pid)
    for run in runs.values():
        run.send_signal(signal.SIGTERM)
    for run in runs.values():
        assert run.wait(_PATIENCE_S) == 0, run.text()
    for name in runs:
        out = Topic(f"{name}.{topic.name}-out", topic.bootstrap_servers, topic.admin)
        written = Counter(json.loads(record.value or b"")["number"] for record in out.records(1)[0])
        assert written == Counter(range(20))


def test_two_pipelines_at_once(start: Callable[..., PipelineProcess], topic: Topic, tmp_path: Path) -> None:
    """Two pipelines, whose flows have the same name, run without environments with one folder of checkpoints. Each has
    a group and an output of its own, and a stop of one leaves the other."""
    topic.produce([json.dumps({"number": number}) for number in range(20)])
    runs = {"numbers": start(None), "others": start(None, file="other.py")}
    for name, run in runs.items():
        _wait_until_read(tmp_path, "_", 20, run, name)

    stop = [sys.executable, "-m", "klamm.cli", "pipeline", "stop", "other.py", "-b", topic.bootstrap_servers]
    stopped = subprocess.run(stop, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert stopped.stdout == "flow copied: stopped\n"
    assert runs["others"].wait(_PATIENCE_S) == 0
    topic.produce([json.dumps({"number": number}) for number in range(20, 30)])
    _wait_until_read(tmp_path, "_", 30, runs["numbers"])
    runs["numbers"].send_signal(signal.SIGTERM)
    assert runs["numbers"].wait(_PATIENCE_S) == 0, runs["numbers"].text()

    for suffix, group, count in (("", "numbers.copied", 30), ("-other", "others.copied", 20)):
        out = Topic(f"{topic.name}{suffix}-out", topic.bootstrap_servers, topic.admin)
        written = Counter(json.loads(record.value or b"")["number"] for record in out.records(1)[0])
        assert written == Counter(range(count))
        assert sum(topic.committed(group, 3)) == count
