"""Runs pipelines, and commands for them, in the shared session."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.spark_topics import Topic

from klamm.cli.main import DONE, main
from klamm.cli.pipeline import pipeline_check, pipeline_replay, pipeline_runner
from klamm.pipelines import Pipeline
from klamm.pipelines.run.pipeline_run import PipelineRun, chosen_flows
from klamm.pipelines.run.place import Place
from klamm.pipelines.status.flow_status import FlowStatus, read_status

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient
    from pyspark.sql import SparkSession

_PATIENCE_S = 240


class Runs:
    """Runs a pipeline several times in one place."""

    def __init__(self, spark: SparkSession, admin: AdminClient, bootstrap_servers: str, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self._admin = admin
        self._bootstrap_servers = bootstrap_servers

    def place(self, pipeline: Pipeline, environment: str | None = None) -> Place:
        return Place.at(
            pipeline.name,
            bootstrap_servers=self._bootstrap_servers,
            checkpoints=str(self.folder / "checkpoints"),
            environment=environment,
        )

    def run(self, pipeline: Pipeline, environment: str | None = None, *, once: bool = True) -> PipelineRun:
        place = self.place(pipeline, environment)
        return PipelineRun(self.spark, pipeline, place, chosen_flows(pipeline, []), once=once)

    def once(self, pipeline: Pipeline, environment: str | None = None) -> bool:
        """Runs all flows to the end of their topics; returns whether none failed."""
        return self.run(pipeline, environment).run()

    def status(self, pipeline: Pipeline, flow: str, environment: str | None = None) -> FlowStatus:
        status = read_status(self.place(pipeline, environment).flow_folder(flow))
        assert status is not None
        return status

    def topic(self, name: str) -> Topic:
        """Returns a topic that a pipeline has written."""
        return Topic(name, self._bootstrap_servers, self._admin)


class Background:
    """A run in a thread."""

    def __init__(self, run: PipelineRun) -> None:
        self.run = run
        self.has_succeeded: bool | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        self.has_succeeded = self.run.run()

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline, "what was waited for did not happen"
            assert self._thread.is_alive(), "the run has ended"
            time.sleep(0.1)

    def join(self) -> bool | None:
        self._thread.join(_PATIENCE_S)
        assert not self._thread.is_alive(), "the run does not end"
        return self.has_succeeded


class Shell:
    """Runs commands in this process, and in the shared session."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str, status: int = DONE) -> str:
        """Returns the standard output of a command, after a comparison of its exit status."""
        self._capsys.readouterr()
        found = main(words)
        printed = self._capsys.readouterr()
        assert found == status, printed.out + printed.err
        return printed.out


@pytest.fixture
def runs(spark: SparkSession, admin: AdminClient, bootstrap_servers: str, tmp_path: Path) -> Iterator[Runs]:
    """Returns a place for the runs of a pipeline; ends queries that a failed test leaves."""
    yield Runs(spark, admin, bootstrap_servers, tmp_path)
    for query in spark.streams.active:
        query.stop()


@pytest.fixture
def name() -> str:
    """Returns a fresh name for a pipeline."""
    return f"p{uuid.uuid4().hex[:8]}"


@pytest.fixture
def klamm(
    spark: SparkSession,
    bootstrap_servers: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shell:
    """Returns a shell in a fresh folder, whose commands have the shared session."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KLAMM_BOOTSTRAP_SERVER", bootstrap_servers)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    monkeypatch.setattr(signal, "signal", lambda *given: None)
    for module in (pipeline_check, pipeline_replay, pipeline_runner):
        monkeypatch.setattr(module, "session_for", lambda *given, **conf: spark)
        monkeypatch.setattr(module, "stop_session", lambda session: None)
    return Shell(capsys)
