"""Tests the commands as users run them: processes that are watched, stopped, ended and killed from outside."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.find_spark_home import _find_spark_home as find_spark_home
from tests.support.patience import Limit
from tests.support.short_lived_spark import SHORT_LIVED_JVM
from tests.support.spark_topics import Topic

from klamm.spark.java import find_java

# Each command starts Spark anew, with executors of its own in one test. On a busy machine that takes minutes.
pytestmark = pytest.mark.timeout(900)

_ROOT = Path(__file__).resolve().parents[3]
_PROGRAM = "src/pyspark_klamm.py"
_PATIENCE_S = 240
_FILE = """
from pyspark.sql import DataFrame

from klamm.pipelines import Pipeline, json, to_topic, topic

pipeline = Pipeline("numbers", conf={{
    "spark.driver.extraJavaOptions": "{java_options}", "spark.sql.shuffle.partitions": 1,
    "spark.sql.streaming.stateStore.providerClass":
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
}})


@pipeline.flow(
    source=topic("{topic}", decode=json("number int"), max_records_per_batch=20),
    sink=to_topic("{topic}-even", key="at"),
)
def even(numbers: DataFrame) -> DataFrame:
    return numbers.where("number % 2 = 0").selectExpr("number", "TIMESTAMP'2026-01-31T12:00:00Z' AS at")
"""


class Commands:
    """The commands for one pipeline, in a folder of their own."""

    def __init__(self, folder: Path, topic: Topic) -> None:
        self.topic = topic
        self.folder = folder
        self.file = folder / "counting.py"
        java_options = SHORT_LIVED_JVM["spark.driver.extraJavaOptions"]
        self.file.write_text(_FILE.format(topic=topic.name, java_options=java_options), encoding="utf-8")
        self._running: list[subprocess.Popen[str]] = []

    def run(self, verb: str, *more: str) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end."""
        return subprocess.run(
            self._words(verb, more),
            cwd=self.folder,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )

    def test(self, *more: str) -> subprocess.CompletedProcess[str]:
        """Runs `klamm pipeline test` in another folder than that of the file."""
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir(exist_ok=True)
        return subprocess.run(
            [sys.executable, "-m", "klamm.cli", "pipeline", "test", str(self.file), *more],
            cwd=elsewhere,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )

    def start(self, *more: str, **environment: str) -> subprocess.Popen[str]:
        """Starts `klamm pipeline run`."""
        return self._start(self._words("run", ("--master", "local[2]", *more)), **environment)

    def submit(self, master: str, *more: str) -> subprocess.Popen[str]:
        """Runs `klamm pipeline run` with spark-submit."""
        java = {"JAVA_HOME": str(find_java().path), "PYSPARK_PYTHON": sys.executable}
        submit = Path(find_spark_home(), "bin", "spark-submit")
        words = [str(submit), "--master", master, "--conf", "spark.sql.shuffle.partitions=3", str(_ROOT / _PROGRAM)]
        return self._start([*words, *self._words("run", more)[3:]], **java)

    def status_of(self, process: subprocess.Popen[str]) -> int:
        """Returns the exit status of a command when it has ended."""
        limit = Limit(_PATIENCE_S)
        while (status := process.poll()) is None and not limit.is_over:
            time.sleep(0.1)
        if status is None:
            pytest.fail(f"the command does not end: {(self.folder / 'run.err').read_text()[-4000:]}")
        return status

    def _start(self, words: list[str], **environment: str) -> subprocess.Popen[str]:
        with (self.folder / "run.out").open("a") as out, (self.folder / "run.err").open("a") as errors:
            process = subprocess.Popen(
                words,
                cwd=self.folder,
                env={**self._environment(), **environment},
                stdout=out,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self._running.append(process)
        return process

    def status(self) -> dict[str, object]:
        """Returns the row of `klamm pipeline status`."""
        (row,) = json.loads(self.run("status", "-o", "json").stdout)
        assert isinstance(row, dict)
        return row

    def wait_until_read(self, records: int) -> None:
        """Waits until the status file tells that the last run has read so many records."""
        process = self._running[-1]
        path = self.folder / "klamm-pipelines" / "test" / "numbers" / "even" / "status.json"
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            status = json.loads(path.read_text()) if path.exists() else None
            if status and status["runner"]["pid"] == process.pid and status["queries"]["flow"]["records"] >= records:
                return
            assert time.monotonic() < deadline, (self.folder / "run.err").read_text()
            assert process.poll() is None, (self.folder / "run.err").read_text()
            time.sleep(0.1)

    def page(self, name: str) -> str:
        """Returns the page at the address that the last run has printed for it on standard error."""
        address = re.search(rf"{name} at (\S+)", (self.folder / "run.err").read_text())
        assert address is not None
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(address[1], timeout=_PATIENCE_S) as response:
            return str(response.read().decode())

    def written(self) -> Counter[int]:
        """Returns the committed records of the sink's topic."""
        sink = Topic(f"test.{self.topic.name}-even", self.topic.bootstrap_servers, self.topic.admin)
        return Counter(json.loads(record.value or b"")["number"] for record in sink.records(1)[0])

    def keys(self) -> set[bytes | None]:
        """Returns the keys of these records."""
        sink = Topic(f"test.{self.topic.name}-even", self.topic.bootstrap_servers, self.topic.admin)
        return {record.key for record in sink.records(1)[0]}

    def kill_jvm(self) -> None:
        """Kills the JVM of the last run, and nothing else."""
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                name, _, fields = stat.read_text(encoding="utf-8").rpartition(")")
                if name.endswith("(java") and int(fields.split()[2]) == self._running[-1].pid:
                    os.kill(int(stat.parent.name), signal.SIGKILL)

    def kill(self) -> None:
        """Ends what is left, with the JVMs."""
        for process in self._running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _words(self, verb: str, more: tuple[str, ...]) -> list[str]:
        words = [sys.executable, "-m", "klamm.cli", "pipeline", verb, str(self.file), "--env", "test"]
        return [*words, "-b", self.topic.bootstrap_servers, *more]

    def _environment(self) -> dict[str, str]:
        paths = os.pathsep.join(filter(None, [str(_ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
        return {**os.environ, "PYTHONPATH": paths}


@pytest.fixture
def commands(tmp_path: Path, new_topic: Callable[..., Topic]) -> Iterator[Commands]:
    """Returns the commands for a pipeline that reads a fresh topic."""
    found = Commands(tmp_path, new_topic())
    yield found
    found.kill()


def test_a_pipeline_is_watched_and_stopped_from_another_process(commands: Commands) -> None:
    """While a pipeline runs, other processes see its state and lag and can stop it after its micro-batch; a second run
    is refused. The run prints a line of JSON for each micro-batch, and ends with status 0. Its dead letters can be
    replayed. Times are written in UTC, whatever the time zone of the machine is. The addresses that it prints serve
    figures for Prometheus and Spark's web interface."""
    commands.topic.produce([*(json.dumps({"number": number}) for number in range(50)), "no JSON"])
    assert commands.status()["state"] == "never run"
    nothing_runs = commands.run("stop")
    assert (nothing_runs.returncode, "no flow of the pipeline numbers runs" in nothing_runs.stderr) == (1, True)

    running = commands.start("--json", "--metrics", "0", "--ui", TZ="America/New_York")
    commands.wait_until_read(51)

    status = commands.status()
    assert (status["flow"], status["state"], status["lag"], status["pid"]) == ("even", "running", 0, running.pid)
    labels = '{environment="test",flow="even",pipeline="numbers",query="flow"}'
    figures = dict(line.rsplit(" ", 1) for line in commands.page("figures for Prometheus").splitlines())
    assert figures[f"klamm_pipeline_records_total{labels}"] == "51.0"
    assert figures[f"klamm_pipeline_bad_records_total{labels}"] == "1.0"
    assert figures[f"klamm_pipeline_lag_records{labels}"] == "0.0"
    assert "<title>klamm pipeline numbers - Spark Jobs</title>" in commands.page("Spark's web interface")
    second = commands.run("run")
    assert second.returncode == 1
    assert f"process {running.pid} on" in second.stderr
    stop = commands.run("stop")
    assert (stop.returncode, stop.stdout) == (0, "flow even: stopped\n")
    assert commands.status_of(running) == 0
    assert commands.status()["state"] == "stopped"

    lines = [json.loads(line) for line in (commands.folder / "run.out").read_text().splitlines()]
    own = [line for line in lines if line["query"] == "flow"]
    assert sum(line["records"] for line in own) == 51
    assert sum(line["bad_records"] for line in own) == 1
    assert {line["environment"] for line in own} == {"test"}
    assert max(line["records"] for line in own) <= 20
    checkpoint = commands.folder / "klamm-pipelines" / "test" / "numbers" / "even" / "checkpoint"
    settings = json.loads((checkpoint / "offsets" / "0").read_text().splitlines()[1])["conf"]
    assert settings["spark.sql.shuffle.partitions"] == "1"
    assert settings["spark.sql.streaming.stateStore.providerClass"].endswith(".RocksDBStateStoreProvider")
    assert commands.written() == Counter(range(0, 50, 2))
    assert commands.keys() == {b"2026-01-31 12:00:00"}
    assert commands.topic.committed("test.numbers.even", 1) == [51]

    replay = commands.run("replay", "--dead-letters")
    assert (replay.returncode, replay.stdout) == (0, "flow even: 1 dead letter replayed, 1 of them still bad\n")


def test_a_stop_while_spark_starts(commands: Commands) -> None:
    """A run has a status before Spark has started. A request to stop ends it in order, and it reads nothing."""
    commands.topic.produce([json.dumps({"number": 0})])
    may_start, home = commands.folder / "may-start", commands.folder / "java"
    (home / "bin").mkdir(parents=True)
    java = find_java()
    (home / "release").write_text(f'JAVA_VERSION="{java.version}"\n')
    waits = f'#!/bin/sh\nwhile [ ! -e "{may_start}" ]; do sleep 0.1; done\nexec "{java.path}/bin/java" "$@"\n'
    (home / "bin" / "java").write_text(waits)
    (home / "bin" / "java").chmod(0o755)
    running = commands.start(JAVA_HOME=str(home))
    limit = Limit(_PATIENCE_S)
    while (status := commands.status())["state"] == "never run":
        assert not limit.is_over
        assert running.poll() is None, (commands.folder / "run.err").read_text()

    assert (status["state"], status["pid"]) == ("starting", running.pid)
    stop = commands.run("stop", "--timeout", "0s")
    assert (stop.returncode, "even: still running. The request stays" in stop.stderr) == (1, True)
    may_start.touch()

    assert commands.status_of(running) == 0, (commands.folder / "run.err").read_text()
    assert commands.status()["state"] == "stopped"
    assert commands.topic.committed("test.numbers.even", 1) == [-1001]


def test_a_pipeline_goes_on_after_kill_9_and_ends_in_order_on_sigterm(commands: Commands) -> None:
    """After kill -9 in the middle of its work the status says that the process is gone; the next run continues, and
    each record is written once. SIGTERM ends that run after its micro-batch, with status 0."""
    commands.topic.produce([json.dumps({"number": number}) for number in range(120)])
    first = commands.start()
    commands.wait_until_read(40)
    first.kill()
    first.wait()

    gone = commands.run("status")
    assert gone.returncode == 1
    assert f"process {first.pid} on" in gone.stdout
    assert commands.status()["state"] == "gone"

    second = commands.start()
    # The first run may have read all records before it was killed, so these alone are enough.
    commands.topic.produce([json.dumps({"number": number}) for number in range(120, 150)])
    commands.wait_until_read(20)
    second.send_signal(signal.SIGTERM)
    assert commands.status_of(second) == 0
    assert commands.status()["state"] == "stopped"

    assert commands.status_of(commands.start("--once")) == 0
    assert commands.written() == Counter(range(0, 150, 2))


def test_a_pipeline_on_a_cluster_with_spark_submit(commands: Commands) -> None:
    """spark-submit runs the command with executors in processes of their own; its settings override the pipeline's."""
    commands.topic.produce([json.dumps({"number": number}) for number in range(10)])

    submitted = commands.submit("local-cluster[2,1,1024]", "--once")

    assert commands.status_of(submitted) == 0, (commands.folder / "run.err").read_text()
    assert commands.written() == Counter(range(0, 10, 2))
    checkpoint = commands.folder / "klamm-pipelines" / "test" / "numbers" / "even" / "checkpoint"
    assert '"spark.sql.shuffle.partitions":"3"' in (checkpoint / "offsets" / "0").read_text()


def test_the_end_of_the_jvm_is_told(commands: Commands) -> None:
    """If Spark's JVM ends alone, as for lack of memory, the run fails with a sentence, and the status says so."""
    commands.topic.produce([json.dumps({"number": number}) for number in range(20)])
    running = commands.start()
    commands.wait_until_read(20)

    commands.kill_jvm()

    assert commands.status_of(running) == 1
    assert "Spark's JVM has ended" in (commands.folder / "run.err").read_text()
    status = commands.status()
    assert status["state"] == "failed"


_TEST = """
import pytest

import counting
from klamm.testing.pipeline_harness import PipelineFailed


def test_a_flow_is_a_function(klamm_spark):
    frame = klamm_spark.createDataFrame([(1,), (2,)], "number int")
    assert [row.number for row in counting.even(frame).collect()] == [2]


def test_runs_continue(klamm_pipeline):
    pipeline = klamm_pipeline(counting.pipeline)
    pipeline.produce("{topic}", [{{"number": 1}}, {{"number": 2}}, "no JSON", b"nor this", None])
    pipeline.run()
    pipeline.produce("{topic}", [{{"number": 4}}], key="k")
    pipeline.run("even")
    assert [record.json for record in pipeline.records("{topic}-even")] == [{{"number": 2}}, {{"number": 4}}]
    letters = pipeline.dead_letters("even")
    assert [letter.value for letter in letters] == [b"no JSON", b"nor this", None]
    assert letters[0].headers["klamm.offset"] == b"2"
    assert pipeline.status("even").figures.bad_records == 3


def test_a_failure_is_raised(klamm_pipeline, monkeypatch):
    pipeline = klamm_pipeline(counting.__file__)
    assert pipeline.records("{topic}-even") == []
    with pytest.raises(PipelineFailed, match="no such topic"):
        pipeline.run()
"""


_UDF = """
from pyspark.sql.functions import udf
from pyspark.sql.types import BooleanType

from parity import is_even


@udf(BooleanType())
def kept(number: int) -> bool:
    return is_even(number)


@pipeline.flow("""


def test_the_tests_of_a_pipeline(commands: Commands) -> None:
    """The command runs the tests next to the file with klamm's fixtures, wherever it is started: a flow as a function,
    and runs of the pipeline with a broker for each test. Functions of the file, which use a module next to it, run in
    Spark's workers. Its status is that of pytest."""
    content = commands.file.read_text().replace('"numbers", conf', '"numbers", max_restarts=0, conf')
    content = content.replace("@pipeline.flow(", _UDF).replace('"number % 2 = 0"', 'kept("number")')
    commands.file.write_text(content)
    (commands.folder / "parity.py").write_text("def is_even(number):\n    return number % 2 == 0\n", encoding="utf-8")
    (commands.folder / "test_counting.py").write_text(_TEST.format(topic=commands.topic.name), encoding="utf-8")

    passed = commands.test("--", "-q", "-p", "no:cacheprovider", "-p", "no:randomly")
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert "3 passed" in passed.stdout

    none = commands.test("--", "-q", "-k", "nothing")
    assert none.returncode == 5
