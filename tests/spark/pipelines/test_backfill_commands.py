"""Tests `klamm pipeline backfill` as users run it: the commands of the guide, wrong arguments, and kill -9."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.spark_topics import Topic

from klamm.cli.main import main
from klamm.cli.pipeline import pipeline_backfill, pipeline_runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROOT = Path(__file__).resolve().parents[3]
_GUIDE = (_ROOT / "docs" / "how-to" / "backfill-a-flow.md").read_text(encoding="utf-8")
_FOLDER = "/home/amalia"
_PATIENCE_S = 240
# Each end needs a JVM of its own: `make faults` takes all.
_ENDS = [("computing", signal.SIGTERM), ("computing", signal.SIGKILL), ("computed", signal.SIGKILL)]
if "KLAMM_SPARK_KILLS" not in os.environ:
    _ENDS = _ENDS[-1:]
# A backfill waits in the phase that this variable names, so that the test can end it there.
_WAIT_IN = "TEST_WAITS_IN_PHASE"
_WAITING = """
import os
import time

from klamm.pipelines import Pipeline, json, to_topic, topic
from klamm.pipelines.run.backfill.backfill_record import BackfillRecord

phase = os.environ.get("{variable}")
store = BackfillRecord.store


def store_and_wait(record):
    store(record)
    while record.phase == phase == "computed":
        time.sleep(0.1)


BackfillRecord.store = store_and_wait

pipeline = Pipeline("numbers", conf={{
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "spark.sql.shuffle.partitions": 1
}})


@pipeline.flow(source=topic("{topic}", decode=json("number int")), sink=to_topic("{topic}-even"))
def even(numbers):
    from pyspark.sql import functions as F

    @F.udf("int")
    def held(number):
        while phase == "computing":
            time.sleep(0.1)
        return number

    return numbers.where("number % 2 = 0").select(held("number").alias("number"))
"""


class Shell:
    """Runs commands in a folder."""

    def __init__(self, folder: Path, bootstrap_servers: str) -> None:
        self.folder = folder
        self._processes: list[subprocess.Popen[str]] = []
        paths = os.pathsep.join(filter(None, [str(_ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
        own = {"PYTHONPATH": paths, "KLAMM_BOOTSTRAP_SERVER": bootstrap_servers}
        self._environment = {**os.environ, **own}

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "klamm.cli", *words],
            cwd=self.folder,
            env={**self._environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._processes.append(process)
        return process

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*words)
        out, errors = process.communicate(timeout=_PATIENCE_S)
        return subprocess.CompletedProcess(words, process.returncode, out, errors)

    def kill(self) -> None:
        """Kills what is left, with the JVMs."""
        for process in self._processes:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()


@pytest.fixture
def shell(tmp_path: Path, bootstrap_servers: str) -> Iterator[Shell]:
    """Returns a shell in a fresh folder; kills what it has started and what still runs."""
    found = Shell(tmp_path, bootstrap_servers)
    yield found
    found.kill()


def test_the_guide(
    spark: SparkSession,
    new_topic: Callable[..., Topic],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The commands of the guide print what it shows. Wrong arguments are told before Spark starts."""
    flights = new_topic()
    for day, delays in {29: (10, 15, 20, 60), 30: (15, 15, 90, None), 31: (15, 30)}.items():
        flights.produce_records({"value": _flight(day, delay), "timestamp": _six_o_clock(day)} for delay in delays)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KLAMM_BOOTSTRAP_SERVER", flights.bootstrap_servers)
    monkeypatch.setattr(pipeline_backfill, "session_for", lambda *given, **conf: spark)
    monkeypatch.setattr(pipeline_backfill, "stop_session", lambda session: None)
    monkeypatch.setattr(pipeline_runner, "session_for", lambda *given, **conf: spark)
    monkeypatch.setattr(pipeline_runner, "stop_session", lambda session: None)
    monkeypatch.setattr(signal, "signal", lambda *given: None)
    file, code = tmp_path / "flights.py", _corrected_code(flights, tmp_path)
    file.write_text(code.replace(">= 15", "> 15"), encoding="utf-8")
    assert main(["pipeline", "run", "flights.py", "--once"]) == 0
    file.write_text(code, encoding="utf-8")
    capsys.readouterr()

    for block in re.findall(r"```console\n(.*?)```", _GUIDE, re.DOTALL):
        command, shown = block.removeprefix("$ klamm ").split("\n", 1)
        status = main(shlex.split(command))
        printed = capsys.readouterr()
        assert status == 0, printed.err
        assert _lines(printed.out.replace(str(tmp_path), _FOLDER).replace(flights.name, "flights")) == _lines(shown)

    for words, (status, reason) in {
        "--from yesterday --into live": (2, "--from: 'yesterday' is no time"),
        "--from 2h --into nowhere": (2, "--into: 'nowhere': write topic:NAME"),
        '--from {"a":0} --into live': (2, "--from: Expected e.g."),
        "--from 2h --into live --flow late": (1, "has no flow late"),
        "--from 2026-01-31 --to 2026-01-30 --into json:x": (1, "--from is not before --to"),
    }.items():
        assert main(["pipeline", "backfill", "flights.py", *words.split()]) == status
        assert reason in capsys.readouterr().err
    assert main(["pipeline", "backfill", "flights.py", "--from", "latest", "--into", "json:x"]) == 0
    assert "0 offsets to read" in capsys.readouterr().out
    file.write_text(f"{code}\n\npipeline.flow(source=topic('x'), sink=to_files('x'), name='x')(delays)\n")
    assert main(["pipeline", "backfill", "flights.py", "--from", "2h", "--into", "json:x"]) == 2
    assert "takes one flow: add --flow NAME. The flows are delays, x" in capsys.readouterr().err


def _flight(day: int, delay: int | None) -> str:
    if delay is None:
        return "no JSON"
    return json.dumps({"time": f"2026-01-{day}T06:00:00Z", "dest": "JFK", "arr_delay": delay})


def _six_o_clock(day: int) -> int:
    return int(datetime(2026, 1, day, 6).timestamp() * 1000)


def _corrected_code(flights: Topic, folder: Path) -> str:
    """Returns the code of the guide with the test's topic, and an absolute path: the shared JVM has another folder."""
    found = re.search(r"```python\n(.*?)```", _GUIDE, re.DOTALL)
    assert found is not None
    code = found[1].replace('"flights", decode', f'"{flights.name}", decode')
    return code.replace('"data/delays"', f'"{folder}/data/delays"')


def _lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if not re.match(r"delays: .*\d s$", line)]


def test_a_backfill_goes_on_after_kill_9(shell: Shell, new_topic: Callable[..., Topic]) -> None:
    """After SIGTERM or kill -9 while it computes, and when the rows are computed, the same command reads the same range
    and writes each row once; the group of the live flow has no commits."""
    numbers = new_topic()
    numbers.produce(json.dumps({"number": number}) for number in range(200))
    file = _WAITING.format(topic=numbers.name, variable=_WAIT_IN)
    (shell.folder / "waiting.py").write_text(file, encoding="utf-8")
    place = ("--env", "test", "--from", "0", "--into", f"topic:{numbers.name}-again")
    words = ("pipeline", "backfill", "waiting.py", *place)

    for phase, number in _ENDS:
        process = shell.start(*words, **{_WAIT_IN: phase})
        _wait_for(shell.folder, process, phase)
        os.killpg(process.pid, number) if number == signal.SIGKILL else process.send_signal(number)
        process.communicate()
        assert process.returncode == (-number if number == signal.SIGKILL else 130)
        numbers.produce([json.dumps({"number": 1_000})])
    last = shell.run(*words)

    assert last.returncode == 0, last.stderr
    assert "and did not end" in last.stdout
    assert "flow even: 200 records read, 0 bad, 100 rows written to topic" in last.stdout
    again = Topic(f"{numbers.name}-again", numbers.bootstrap_servers, numbers.admin)
    written = Counter(json.loads(record.value or b"")["number"] for record in again.records(1)[0])
    assert written == Counter(range(0, 200, 2))
    assert numbers.committed("test.numbers.even", 1) == [-1001]


def _wait_for(folder: Path, process: subprocess.Popen[str], phase: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        files = list(folder.glob("klamm-pipelines/test/numbers/even.backfill/*/backfill.json"))
        if files and json.loads(files[0].read_text())["phase"] == phase:
            return
        assert time.monotonic() < deadline
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
