"""Tests the end of a run whose JVM ends while no query of it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from klamm.pipelines import Pipeline, PipelineError, to_topic, topic
from klamm.pipelines.run.pipeline_run import PipelineRun
from klamm.pipelines.run.place import Place
from klamm.pipelines.status.flow_status import FlowStatus, read_status


class Session:
    """A session in which no query starts, and whose JVM ends when its answers are used up."""

    def __init__(self, answers: float) -> None:
        self._answers = answers
        self._jvm = self.System = self

    def nanoTime(self) -> int:
        if self._answers == 0:
            raise ConnectionRefusedError
        self._answers -= 1
        return 1

    def _get_j_spark_session_class(self, jvm: Any) -> Any:
        raise ConnectionResetError("no query starts")


class Failing:
    """A reporter that raises an error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def batch(self, status: FlowStatus, role: str, report: object) -> None:
        """Never called."""

    def show(self, statuses: Any) -> None:
        raise self._error


class Observer:
    """Notes the states of the flow."""

    def __init__(self) -> None:
        self.states: list[str] = []

    def batch(self, status: FlowStatus, role: str, report: object) -> None:
        """Never called."""

    def show(self, statuses: Any) -> None:
        self.states += [status.state for status in statuses]


def test_a_jvm_that_ends_while_a_query_waits_to_restart(tmp_path: Path) -> None:
    """The run fails with a sentence, does not wait for the restart, and the status says so."""
    pipeline = Pipeline("flights")
    pipeline.flow(source=topic("flights"), sink=to_topic("out"), name="late", bad_records="drop")(
        lambda flights: flights
    )
    place = Place.at("flights", bootstrap_servers="kafka:9092", checkpoints=str(tmp_path))
    session: Any = Session(answers=3)
    observer = Observer()
    run = PipelineRun(session, pipeline, place, pipeline.flows.values(), once=False, reporters=[observer])

    with pytest.raises(PipelineError, match=r"Spark's JVM has ended"):
        run.run()

    assert "waiting to restart" in observer.states
    status = read_status(place.flow_folder("late"))
    assert status is not None
    assert status.state == "failed"
    assert "Spark's JVM has ended" in (status.error or "")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (BrokenPipeError(32, "Broken pipe"), "the reader of the command's output has closed it"),
        (ValueError("no JSON"), "ValueError: no JSON"),
    ],
)
def test_a_run_that_ends_by_an_error_does_not_say_that_it_ended_in_order(
    tmp_path: Path, error: Exception, told: str
) -> None:
    """The run ends because nothing reads its lines any more, or by an error that the code does not expect. The flow
    has failed, and its status has the reason."""
    pipeline = Pipeline("flights")
    pipeline.flow(source=topic("flights"), sink=to_topic("out"), name="late", bad_records="drop")(
        lambda flights: flights
    )
    place = Place.at("flights", bootstrap_servers="kafka:9092", checkpoints=str(tmp_path))
    session: Any = Session(answers=float("inf"))
    run = PipelineRun(session, pipeline, place, pipeline.flows.values(), once=False, reporters=[Failing(error)])

    with pytest.raises(type(error)):
        run.run()

    status = read_status(place.flow_folder("late"))
    assert status is not None
    assert (status.state, told in (status.error or "")) == ("failed", True)
