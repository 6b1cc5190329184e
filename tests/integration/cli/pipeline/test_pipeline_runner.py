"""Tests `klamm pipeline run` while Spark starts: its status, requests to stop, a second run, and what ends it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.patience import Limit

from klamm.cli.main import DONE, FAILED, INTERRUPTED, main
from klamm.cli.pipeline import pipeline_runner
from klamm.pipelines import PipelineError
from klamm.pipelines.errors import DeclarationError
from klamm.pipelines.run import run_announcement
from klamm.pipelines.status.flow_status import FlowStatus, QueryStatus, Runner, read_status, write_status

_FILE = """
from klamm.pipelines import Pipeline, to_topic, topic

pipeline = Pipeline("numbers")
for name in ("even", "odd"):
    pipeline.flow(source=topic("numbers"), sink=to_topic(name), name=name)(lambda numbers: numbers)
"""


class Session:
    """A session in which no query can start."""

    has_started = False

    def __init__(self) -> None:
        self._jvm = self.System = self

    def nanoTime(self) -> int:
        return 1

    @staticmethod
    def _get_j_spark_session_class(jvm: Any) -> Any:
        Session.has_started = True
        raise DeclarationError("no query starts here")

    def stop(self) -> None:
        """Does nothing."""


class Commands:
    """The commands for a pipeline. Instead of Spark's start, the run calls a function of the test."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        (folder / "counting.py").write_text(_FILE, encoding="utf-8")

    def __call__(self, verb: str, *more: str) -> tuple[int, str, str]:
        """Runs a command; returns its exit status and its outputs."""
        words = [str(self.folder / "counting.py"), "-b", "127.0.0.1:1", "--checkpoints", str(self.folder), *more]
        status = main(["pipeline", verb, *words])
        out, err = self._capsys.readouterr()
        return status, out, err

    def run(self, meanwhile: Callable[[], None], *more: str) -> tuple[int, str, str]:
        """Runs `klamm pipeline run`."""

        def session_for(*arguments: object, **conf: object) -> Session:
            meanwhile()
            return Session()

        self._monkeypatch.setattr(pipeline_runner, "session_for", session_for)
        return self("run", *more)

    def rows(self) -> list[dict[str, Any]]:
        """Returns the rows of `klamm pipeline status`."""
        rows: list[dict[str, Any]] = json.loads(self("status", "-o", "json")[1])
        return rows

    def states(self) -> list[str]:
        """Returns the states of the two flows."""
        return [row["state"] for row in self.rows()]

    def flow_folder(self, flow: str) -> Path:
        """Returns the folder of a flow."""
        return self.folder / "_" / "numbers" / flow

    def status(self, flow: str) -> FlowStatus:
        """Returns what the status file says."""
        status = read_status(str(self.flow_folder(flow)))
        assert status is not None
        return status


@pytest.fixture
def commands(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Commands]:
    """Returns the commands; restores what handles signals."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    monkeypatch.setattr(Session, "has_started", False)
    yield Commands(tmp_path, capsys, monkeypatch)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_a_stop_while_spark_starts(commands: Commands) -> None:
    """While Spark starts, the status says so, a second run is refused, and a request to stop is accepted. The run ends
    in order, and starts no query."""

    def meanwhile() -> None:
        rows = commands.rows()
        assert [(row["flow"], row["state"], row["pid"]) for row in rows] == [
            ("even", "starting", os.getpid()),
            ("odd", "starting", os.getpid()),
        ]
        assert "runs the flow even already" in commands("run")[2]
        status, _, err = commands("stop", "--timeout", "0s")
        assert (status, "even, odd: still running. The request stays" in err) == (FAILED, True)

    assert commands.run(meanwhile)[0] == DONE

    assert not Session.has_started
    assert commands.states() == ["stopped", "stopped"]
    assert not list(commands.folder.rglob("stop"))
    assert "no flow of the pipeline numbers runs" in commands("stop")[2]


def test_a_stop_of_one_flow_while_spark_starts(commands: Commands) -> None:
    """A request for one flow does not end the other one."""

    def meanwhile() -> None:
        commands("stop", "--flow", "even", "--timeout", "0s")

    status, _, err = commands.run(meanwhile)

    assert (status, "flow odd stopped: no query starts here" in err) == (FAILED, True)
    assert commands.states() == ["stopped", "failed"]


def test_a_request_of_before_the_run(commands: Commands) -> None:
    """A request to stop that an earlier run has left does not end this one."""
    for flow in ("even", "odd"):
        commands.flow_folder(flow).mkdir(parents=True)
        (commands.flow_folder(flow) / "stop").touch()

    assert commands.run(lambda: None)[0] == FAILED

    assert Session.has_started
    assert commands.states() == ["failed", "failed"]


@pytest.mark.parametrize(
    ("error", "exit_status", "state"),
    [(PipelineError("Spark does not start: no Java"), FAILED, "failed"), (KeyboardInterrupt(), INTERRUPTED, "stopped")],
)
def test_spark_that_does_not_start(commands: Commands, error: BaseException, exit_status: int, state: str) -> None:
    """The status says that the run is over and why, and keeps the count of bad records. So does a run that is
    interrupted."""
    runner, queries = Runner.this_process("earlier"), {"flow": QueryStatus(state="stopped", bad_records=7)}
    earlier = FlowStatus(
        "numbers", "even", None, "stopped", runner, once=False, started_ms=0, updated_ms=0, queries=queries
    )
    write_status(str(commands.flow_folder("even")), earlier)

    def meanwhile() -> None:
        raise error

    assert commands.run(meanwhile)[0] == exit_status

    assert [(row["state"], row["bad"]) for row in commands.rows()] == [(state, 7), (state, 0)]
    assert commands.status("odd").error == ("Spark does not start: no Java" if state == "failed" else None)
    assert ("no Java" in commands("status")[1]) == (state == "failed")


def test_sigterm_while_spark_starts(commands: Commands) -> None:
    """SIGTERM ends the run at once and in order: there is no micro-batch to wait for."""
    with pytest.raises(SystemExit) as ended:
        commands.run(lambda: os.kill(os.getpid(), signal.SIGTERM))

    assert ended.value.code == 0
    assert commands.states() == ["stopped", "stopped"]


def test_a_folder_that_can_not_be_written(commands: Commands) -> None:
    """The run ends before Spark starts, with a sentence, and leaves no flow that seems to start."""
    commands.flow_folder("odd").parent.mkdir(parents=True)
    commands.flow_folder("odd").touch()
    has_started = []

    status, _, err = commands.run(lambda: has_started.append(True))

    assert (status, "flow odd can't be" in err, has_started) == (FAILED, True, [])
    assert not commands.flow_folder("even").exists() or commands.status("even").state == "failed"


def test_other_machines_see_a_fresh_status(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """The status is refreshed as long as Spark starts, unless another run has taken the flow: that one's status
    stays."""
    monkeypatch.setattr(run_announcement, "_INTERVAL_S", 0.01)
    other = Runner("other", "another-machine", os.getpid(), None)

    def meanwhile() -> None:
        first = commands.status("even")
        write_status(str(commands.flow_folder("odd")), replace(commands.status("odd"), runner=other))
        limit = Limit(60)
        while commands.status("even").updated_ms == first.updated_ms:
            assert not limit.is_over
        assert commands.status("odd").runner == other

    status, _, err = commands.run(meanwhile)

    assert (status, "on another-machine runs the flow odd already" in err) == (FAILED, True)
    assert commands.status("odd").state == "starting"
    assert commands.status("even").state == "failed"
