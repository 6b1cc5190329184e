"""Tests what a flow leaves in its folder after its end, where the next run of the flow may work already."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from klamm.pipelines import Pipeline, to_topic, topic
from klamm.pipelines.run import flow_run
from klamm.pipelines.run.flow_run import STOP_FILE, FlowRun
from klamm.pipelines.run.place import Place
from klamm.pipelines.run.supervised_query import QueryState
from klamm.pipelines.status.flow_status import Runner, read_status, write_status


class Query:
    """A query in the midst of a micro-batch, or one that has ended."""

    def __init__(self, *, is_active: bool) -> None:
        self.isActive = is_active
        self.status = {"isTriggerActive": True, "message": "Processing new data"}
        self.is_stopped = False
        self._jsq = self

    def recentProgress(self) -> list[Any]:
        return []

    def exception(self) -> None:
        return None

    def stop(self) -> None:
        self.is_stopped = True


class Session:
    """A session in which no query starts."""

    _jvm = None

    @staticmethod
    def _get_j_spark_session_class(jvm: Any) -> Any:
        raise SystemExit("no query starts")


def _new_run(session: Any, tmp_path: Path, clock: Callable[[], float], *, once: bool = False) -> tuple[FlowRun, Place]:
    """Returns a run of the flow `late`, which has dead letters, and the place where it leaves its files."""
    pipeline = Pipeline("flights")
    pipeline.flow(source=topic("flights"), sink=to_topic("out"), name="late")(lambda flights: flights)
    place = Place.at("flights", bootstrap_servers="kafka:9092", checkpoints=str(tmp_path))
    run = FlowRun(
        session,
        place,
        pipeline.flows["late"],
        runner=Runner.this_process("run"),
        max_restarts=0,
        once=once,
        clock=clock,
        wall_clock=lambda: 1_700_000_000.0,
    )
    return run, place


def test_a_flow_that_is_over_leaves_its_folder_alone(tmp_path: Path) -> None:
    """A flow fails; another process runs it again. The former process goes on with other flows, and ends: it changes
    neither the status of the new run nor its request to stop.
    """
    pipeline = Pipeline("flights")
    pipeline.flow(source=topic("flights"), sink=to_topic("out"), name="late", bad_records="drop")(
        lambda flights: flights
    )
    place = Place.at("flights", bootstrap_servers="kafka:9092", checkpoints=str(tmp_path))
    session: Any = Session()
    now = 0.0
    former = FlowRun(
        session,
        place,
        pipeline.flows["late"],
        runner=Runner.this_process("former"),
        max_restarts=0,
        once=False,
        clock=lambda: now,
        wall_clock=lambda: 1_700_000_000.0 + now,
    )
    former.begin()
    ends = time.monotonic() + 60
    while not former.is_over:
        assert time.monotonic() < ends
        assert list(former.look()) == []
        now += 0.1
    folder = place.flow_folder("late")
    failed = read_status(folder)
    assert failed is not None
    assert failed.state == "failed"

    write_status(folder, replace(failed, state="running", runner=Runner.this_process("next")))
    Path(folder, STOP_FILE).touch()
    now += 10
    assert list(former.look()) == []
    former.end()
    status = read_status(folder)
    assert status is not None
    assert (status.state, status.runner.run_id) == ("running", "next")
    assert Path(folder, STOP_FILE).exists()


def test_the_first_error_that_ends_a_flow_is_told(tmp_path: Path) -> None:
    """A flow stops by an error, and its dead letters stop by another one. The message, the status and the file with the
    whole error are those of the flow, without which the dead letters do not go on."""
    both_wait = threading.Event()

    class Waiting(Session):
        @staticmethod
        def _get_j_spark_session_class(jvm: Any) -> Any:
            assert both_wait.wait(60)
            raise SystemExit("no query starts")

    # The second look is so late that the dead letters start next to the flow.
    run, _ = _new_run(Waiting(), tmp_path, iter((0.0, 100.0, 101.0)).__next__)
    assert list(run.look()) == []
    both_wait.set()
    for thread in threading.enumerate():
        if thread.name == "klamm-pipeline-start":
            thread.join(60)
    assert list(run.look()) == []

    assert [query.state.value for query in run.queries.values()] == ["failed", "failed"]
    assert run.message is not None
    assert run.message.startswith("flow late stopped")
    assert run.status().error == run.message


def test_a_stop_long_after_the_end_of_the_flow_waits_for_the_dead_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `--once`, the dead letters begin when the flow has ended, and may need long. A stop gives them the same
    time as a stop of a flow that runs: it does not end their micro-batch at once."""
    letters = Query(is_active=True)
    monkeypatch.setattr(flow_run, "start_flow", lambda *given, once: Query(is_active=False))
    monkeypatch.setattr(flow_run, "start_dead_letters", lambda *given, once: letters)
    clock = [0.0]
    run, place = _new_run(Session(), tmp_path, lambda: clock[0], once=True)
    for name, text in (("offsets", 'v1\n{}\n{"flights":{"0":5}}'), ("commits", "v1\n{}")):
        (Path(place.checkpoint("late")) / name).mkdir(parents=True)
        (Path(place.checkpoint("late")) / name / "0").write_text(text)
    run.begin()
    for role in run.queries:
        while run.queries[role].state is QueryState.STARTING:
            assert list(run.look()) == []
            for thread in threading.enumerate():
                if thread.name == "klamm-pipeline-start":
                    thread.join(60)
    clock[0] = 100.0
    run.request_stop()
    for after in (101.0, 115.0):
        clock[0] = after
        assert list(run.look()) == []
        assert (run.status().state, letters.is_stopped) == ("stopping", False)
    clock[0] = 122.0
    assert list(run.look()) == []
    assert letters.is_stopped
