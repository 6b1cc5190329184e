"""One query of a flow: started, watched, restarted after failures, and stopped between two micro-batches."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from klamm.errors import KlammError
from klamm.pipelines.errors import DeclarationError
from klamm.pipelines.run.checkpoint_reader import PlannedBatch, is_settled, unfinished_batch
from klamm.pipelines.run.error_texts import one_line, texts_of
from klamm.pipelines.run.flow_frames import BAD_RECORD_PREFIX
from klamm.pipelines.run.restarts import Restarts
from klamm.pipelines.run.state_errors import advice_on_state
from klamm.pipelines.status.query_reports import BatchReport, QueryReports, new_progress
from klamm.spark.source.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["Failure", "QueryState", "SupervisedQuery"]

# The source looks for its stop file once a second.
_SOURCE_NOTICES_S: Final = 1.3
_IDLE_S: Final = 0.4
# A start that takes longer waits for the cluster.
_START_PATIENCE_S: Final = 10.0
# Spark interrupts a micro-batch, but not the commit of a Python sink that waits for its brokers.
_STOP_PATIENCE_S: Final = 10.0
_WAITS: Final = "Waiting"
_WAITING: Final = (_WAITS, "Getting offsets", "Initializing")


class QueryState(Enum):
    """The state of a query in this run."""

    STARTING = "starting"
    RUNNING = "running"
    WAITING = "waiting to restart"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        """Whether the query does not run again in this run."""
        return self in (QueryState.STOPPED, QueryState.FAILED)


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure of a query."""

    line: str
    whole: str
    batch: PlannedBatch | None
    """The micro-batch that failed; None if there was none, or if the checkpoint can't be read."""
    is_certain: bool
    """Whether a restart would fail in the same way."""
    advice: str | None = None
    """What to do; None if the error itself says it."""


class SupervisedQuery:
    """A query, with its restarts. `look` is called several times a second by one thread."""

    def __init__(
        self, name: str, checkpoint: str, start: Callable[[], StreamingQuery], limit: int, bad_records: int = 0
    ) -> None:
        """Takes the function that starts the query, and how often it is restarted without progress."""
        self.name: Final = name
        self.checkpoint: Final = checkpoint
        self.reports: Final = QueryReports(bad_records)
        self.restarts: Final = Restarts(limit)
        self.state = QueryState.STARTING
        self.failure: Failure | None = None
        """The last failure."""
        self.has_run = False
        """Whether the query has been started in this run."""
        self._start = start
        self._starting: _Start | None = None
        self._query: StreamingQuery | None = None
        self._due = float("-inf")
        self._seen: str | None = None
        self._idle_since: float | None = None
        self._has_finished_a_batch = False

    @property
    def due(self) -> float:
        """The time of the next start, on the caller's clock."""
        return self._due

    @property
    def is_at_first_batch(self) -> bool:
        """Whether the query starts, or has planned its first micro-batch in this run and not finished it."""
        if self.state is QueryState.RUNNING and not self._has_finished_a_batch:
            assert self._query is not None
            return not str(self._query.status["message"]).startswith(_WAITS)
        return self.state is QueryState.STARTING

    def look(self, now: float) -> Iterator[BatchReport]:
        """Starts the query if it is due, notes whether it has ended, and yields its finished micro-batches."""
        if self.state in (QueryState.STARTING, QueryState.WAITING):
            self._look_at_start(now)
        if self.state is QueryState.RUNNING:
            assert self._query is not None
            # Asked first, so that no report of a query that ends now is missed.
            is_active = self._query.isActive
            for progress in new_progress(self._query, self._seen):
                self._seen = progress["timestamp"]
                report = self.reports.add(progress)
                # Spark reports a query without new records too: it has recovered from its failure.
                self.restarts.progressed()
                self.failure = None
                if report is not None:
                    self._has_finished_a_batch, self._idle_since = True, None
                    yield report
            if not is_active:
                self._ended(now)

    def stop_when_idle(self, now: float, requested_at: float) -> None:
        """Ends the query between two micro-batches. It has nothing more to plan since `requested_at`, as by the stop
        file."""
        if self.state is QueryState.WAITING or (self.state is QueryState.STARTING and self._starting is None):
            self.state = QueryState.STOPPED
        self.give_up_start(now, requested_at)
        if self.state is not QueryState.RUNNING or now - requested_at < _SOURCE_NOTICES_S:
            return
        self.watch_idleness(now)
        if self._idle_since is not None and now - self._idle_since >= _IDLE_S and self._is_settled():
            self.end()

    def watch_idleness(self, now: float) -> None:
        """Notes since when the query waits, so that a stop soon after needs not wait for it."""
        if self.state is not QueryState.RUNNING:
            return
        assert self._query is not None
        status: Mapping[str, Any] = self._query.status
        if status["isTriggerActive"] and not str(status["message"]).startswith(_WAITING):
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = now

    def give_up_start(self, now: float, requested_at: float) -> None:
        """Ends a start that has taken too long since the request."""
        if self.state is QueryState.STARTING and now - requested_at >= _START_PATIENCE_S:
            self.end()

    def end(self, *, has_failed: bool = False) -> None:
        """Ends the query at once. A micro-batch that runs is repeated by the next run."""
        if self._starting is not None:
            self._starting.abandon()
            self._starting = None
        if self._query is not None:
            _stop(self._query)
        if not self.state.is_final:
            self.state = QueryState.FAILED if has_failed else QueryState.STOPPED

    def _look_at_start(self, now: float) -> None:
        if self._starting is None:
            if now < self._due:
                return
            self._starting, self.state = _Start(self._start), QueryState.STARTING
        if not self._starting.is_done:
            return
        started, self._starting = self._starting, None
        if started.error is not None:
            self._failed(now, _failure_at_start(started.error, has_run=self.has_run))
            return
        self._query, self._seen, self.state = started.query, None, QueryState.RUNNING
        self.has_run, self._idle_since = True, None
        self.reports.restarted()

    def _ended(self, now: float) -> None:
        assert self._query is not None
        if self._query.exception() is None:
            self.state = QueryState.STOPPED
            return
        line, whole = texts_of(self._query)
        advice = advice_on_state(line)
        # The source's own word for a bad record; the declaration says that it ends the flow.
        certain = advice is not None or BAD_RECORD_PREFIX in line
        self._failed(now, Failure(line, whole, self._unfinished(), is_certain=certain, advice=advice))

    def _failed(self, now: float, failure: Failure) -> None:
        self.failure, self._query = failure, None
        due = None if failure.is_certain else self.restarts.next_start(now)
        if due is None:
            self.state = QueryState.FAILED
        else:
            self.state, self._due = QueryState.WAITING, due

    def _unfinished(self) -> PlannedBatch | None:
        try:
            return unfinished_batch(self.checkpoint)
        except OSError:
            return None

    def _is_settled(self) -> bool:
        try:
            return is_settled(self.checkpoint)
        except OSError:
            return True  # its micro-batch is repeated if it did not end


class _Start:
    """The start of a query in a thread: it may wait for the cluster, and other flows are watched meanwhile."""

    def __init__(self, start: Callable[[], StreamingQuery]) -> None:
        self.query: StreamingQuery | None = None
        self.error: BaseException | None = None
        self.is_done = False
        self._start = start
        self._lock = threading.Lock()
        self._is_abandoned = False
        threading.Thread(target=self._run, name="klamm-pipeline-start", daemon=True).start()

    def abandon(self) -> None:
        """Stops the query if it has started, or as soon as it starts."""
        with self._lock:
            self._is_abandoned = True
            if self.query is not None:
                _stop(self.query)

    def _run(self) -> None:
        try:
            query = self._start()
        except BaseException as error:  # code of the declaration may call sys.exit
            self.error = error
        else:
            with self._lock:
                self.query = query
                if self._is_abandoned:
                    _stop(query)
        self.is_done = True


def _stop(query: StreamingQuery) -> None:
    """Stops a query. Returns after some seconds also if it does not end: the next run repeats its micro-batch."""
    thread = threading.Thread(target=_stop_however_long, args=(query,), name="klamm-pipeline-stop", daemon=True)
    thread.start()
    thread.join(_STOP_PATIENCE_S)


def _stop_however_long(query: StreamingQuery) -> None:
    with suppress(Exception):  # it may have failed just now
        query.stop()


def _failure_at_start(error: BaseException, *, has_run: bool) -> Failure:
    from pyspark.errors import AnalysisException

    # The same code has been analysed before if the query has run: a table that it reads is away, or its catalog is.
    is_certain = isinstance(error, DeclarationError | OptionError) or (
        isinstance(error, AnalysisException) and not has_run
    )
    line = str(error) if isinstance(error, KlammError) else one_line(f"{type(error).__name__}: {error}")
    return Failure(line, "".join(traceback.format_exception(error)), None, is_certain)
