"""Tests how a stop request ends a query that does not run yet, and which errors a restart may remove."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from klamm.pipelines.run import supervised_query
from klamm.pipelines.run.supervised_query import QueryState, SupervisedQuery

_PATIENCE_S = 60
_LONG_S = 100.0


class Query:
    """A started query without micro-batches, as far as its stop is concerned."""

    def __init__(self) -> None:
        self.stopped, self.may_stop = threading.Event(), threading.Event()
        self.may_stop.set()
        self.isActive = True
        self._jsq = self

    def recentProgress(self) -> list[Any]:
        return []

    def stop(self) -> None:
        assert self.may_stop.wait(_PATIENCE_S)
        self.stopped.set()

    def exception(self) -> Query:
        return self

    def get(self) -> RuntimeError:
        return Failed("no broker")


class Failed(RuntimeError):
    """The error of a query, as py4j shows it."""

    def toString(self) -> str:
        return str(self)

    def getCause(self) -> None:
        return None


class Start:
    """A start that waits, as for a cluster that is down, and then succeeds."""

    def __init__(self) -> None:
        self.query = Query()
        self.entered, self.may_go_on = threading.Event(), threading.Event()
        self.fails_first = False
        self.error: Exception | None = None

    def __call__(self) -> Any:
        if self.error is not None:
            raise self.error
        if self.fails_first:
            self.fails_first = False
            raise RuntimeError("the first start fails")
        self.entered.set()
        assert self.may_go_on.wait(_PATIENCE_S)
        return self.query


def supervised(start: Start, folder: Path) -> SupervisedQuery:
    return SupervisedQuery("late", str(folder / "checkpoint"), start, 5)


def look_until(query: SupervisedQuery, state: QueryState, now: float) -> None:
    """Looks until the thread of a start has ended and the query has this state."""
    for thread in threading.enumerate():
        if thread.name == "klamm-pipeline-start":
            thread.join(_PATIENCE_S)
    assert list(query.look(now)) == []
    assert query.state is state


def test_a_start_that_hangs_is_abandoned_by_a_stop(tmp_path: Path) -> None:
    """A stop request waits some seconds for a query that starts, and not until the cluster can be reached. The query is
    stopped if its start succeeds later."""
    start = Start()
    query = supervised(start, tmp_path)
    assert list(query.look(0)) == []
    assert start.entered.wait(_PATIENCE_S)

    states = []
    for now in (1, _LONG_S):
        query.stop_when_idle(now, requested_at=0)
        states.append(query.state)
    assert states == [QueryState.STARTING, QueryState.STOPPED]

    assert list(query.look(_LONG_S)) == []
    start.may_go_on.set()
    assert start.query.stopped.wait(_PATIENCE_S)


def test_a_restart_that_has_begun_is_a_start(tmp_path: Path) -> None:
    """While a query is started again after its failure, a stop request does not take it for one that waits: its query
    would then run without a supervisor."""
    start = Start()
    start.fails_first = True
    query = supervised(start, tmp_path)
    assert list(query.look(0)) == []
    look_until(query, QueryState.WAITING, 0)
    assert list(query.look(_LONG_S)) == []
    assert start.entered.wait(_PATIENCE_S)

    query.stop_when_idle(_LONG_S, requested_at=_LONG_S)

    assert query.state is QueryState.STARTING
    start.may_go_on.set()
    look_until(query, QueryState.RUNNING, _LONG_S)


def test_a_query_that_does_not_end_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit of a sink may wait for brokers that are away, and Spark's stop waits for the commit. The end of a run
    does not: a second signal, and the status of other flows, must not wait for it."""
    monkeypatch.setattr(supervised_query, "_STOP_PATIENCE_S", 0.01)
    start = Start()
    start.may_go_on.set()
    query = supervised(start, tmp_path)
    assert list(query.look(0)) == []
    look_until(query, QueryState.RUNNING, 0)
    start.query.may_stop.clear()

    query.end()

    assert query.state is QueryState.STOPPED
    assert not start.query.stopped.is_set()
    start.query.may_stop.set()
    assert start.query.stopped.wait(_PATIENCE_S)


@pytest.mark.parametrize("has_failed", [False, True])
def test_the_end_of_a_run_abandons_a_start(tmp_path: Path, has_failed: bool) -> None:
    """A query whose start succeeds after the end of its run is stopped."""
    start = Start()
    query = supervised(start, tmp_path)
    assert list(query.look(0)) == []
    assert start.entered.wait(_PATIENCE_S)

    query.end(has_failed=has_failed)

    assert query.state is (QueryState.FAILED if has_failed else QueryState.STOPPED)
    start.may_go_on.set()
    assert start.query.stopped.wait(_PATIENCE_S)


def test_an_error_of_the_analysis_ends_a_flow_that_has_not_run(tmp_path: Path) -> None:
    """A column that does not exist is not there after a restart either."""
    start = Start()
    start.error = AnalysisException("[UNRESOLVED_COLUMN] dets")
    query = supervised(start, tmp_path)
    assert list(query.look(0)) == []
    look_until(query, QueryState.FAILED, 0)


def test_an_error_of_the_analysis_at_a_restart_may_pass(tmp_path: Path) -> None:
    """A flow joins a table that another job is just replacing, when the flow is started again after its broker was
    away. Spark reports the missing table as it reports a missing column, but the same code has run before: the flow is
    started again until the table is there."""
    start = Start()
    start.may_go_on.set()
    query = supervised(start, tmp_path)
    assert list(query.look(0)) == []
    look_until(query, QueryState.RUNNING, 0)
    start.query.isActive = False
    assert list(query.look(0)) == []
    assert query.state is QueryState.WAITING

    start.error = AnalysisException("[PATH_NOT_FOUND] airports.parquet")
    assert list(query.look(_LONG_S)) == []
    look_until(query, QueryState.WAITING, _LONG_S)
    assert query.failure is not None
    assert "PATH_NOT_FOUND" in query.failure.line

    start.error, start.query = None, Query()
    assert list(query.look(2 * _LONG_S)) == []
    look_until(query, QueryState.RUNNING, 2 * _LONG_S)
