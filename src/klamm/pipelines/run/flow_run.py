"""One flow in one run of its pipeline: its queries, its stop request, and its status file."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final

from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.run.bad_record_rule import are_dead_letters_behind
from klamm.pipelines.run.checkpoint_reader import PlannedBatch
from klamm.pipelines.run.flow_queries import start_dead_letters, start_flow
from klamm.pipelines.run.judgement import Judgement
from klamm.pipelines.run.place import Place
from klamm.pipelines.run.supervised_query import Failure, QueryState, SupervisedQuery
from klamm.pipelines.status.flow_status import FlowStatus, QueryStatus, Runner, bad_records_before, write_status
from klamm.pipelines.status.query_reports import BatchReport
from klamm.spark.folders import folder_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["DEAD_LETTERS", "FLOW", "STOP_FILE", "FlowRun"]

_logger = logging.getLogger(__name__)

DEAD_LETTERS: Final = "dead-letters"
"""The role of the query that writes dead letters."""
FLOW: Final = "flow"
"""The role of the flow's own query."""
STOP_FILE: Final = "stop"
"""The name of the file in a flow's folder that ends the flow."""
_ERROR_FILE: Final = "error.txt"
_STATUS_INTERVAL_S: Final = 3.0
_STOP_INTERVAL_S: Final = 0.5
_DEAD_LETTERS_WAIT_S: Final = 15.0
_CATCH_UP_S: Final = 20.0
"""How long the dead letters of a flow that was stopped or has failed may need to reach the flow's end."""


class FlowRun:
    """A flow that runs. One thread calls `look` several times a second until `is_over`."""

    def __init__(
        self,
        spark: SparkSession,
        place: Place,
        flow: Flow,
        *,
        runner: Runner,
        max_restarts: int,
        once: bool,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        """Takes a monotonic `clock`, and a `wall_clock` of seconds since the epoch."""
        self.flow: Final = flow
        self.message: str | None = None
        """Why the flow has failed, and what to do; None unless it has."""
        self._place = place
        self._runner = runner
        self._once = once
        self._clock = clock
        self._wall_clock = wall_clock
        self._folder: Final = place.flow_folder(flow.name)
        self._max_restarts = max_restarts
        self._started_ms = int(wall_clock() * 1000)
        self._began_at = clock()
        self._dead_letters_may_start = False
        self._flow_ended_at: float | None = None
        self._are_dead_letters_behind = True
        self._dead_letters_looked_at = float("-inf")
        self._stop_requested_at: float | None = None
        self._stop_looked_at = float("-inf")
        self._written: FlowStatus | None = None
        self._written_at = float("-inf")
        self._has_warned = False
        """Whether the status could not be written last."""
        self._has_told_its_end = False
        """Whether the last status is written. From then on the flow's folder may belong to another run."""
        before = bad_records_before(self._folder)
        self.bad_records_before: Final = before.get(FLOW, 0)
        """The bad records of earlier runs."""
        judgement = Judgement(spark, place, flow)
        starts: dict[str, tuple[Callable[[], StreamingQuery], str, str]] = {
            FLOW: (
                partial(start_flow, spark, place, flow, judgement, once=once),
                place.query_name(flow),
                place.checkpoint(flow.name),
            )
        }
        if flow.writes_dead_letters:
            starts[DEAD_LETTERS] = (
                partial(self._start_dead_letters, spark, judgement),
                place.dead_letters_query_name(flow),
                place.dead_letters_checkpoint(flow.name),
            )
        # The first of the two queries to start stores the starting offsets and the schemas, and the other one takes
        # them. If both determined them, a record between two determinations would be in neither of the outputs.
        alone = Lock()
        self.queries: Final = {
            role: SupervisedQuery(
                name, checkpoint, partial(_start_alone, alone, start), max_restarts, before.get(role, 0)
            )
            for role, (start, name, checkpoint) in starts.items()
        }

    @property
    def is_over(self) -> bool:
        """Whether no query of the flow runs again in this run."""
        return all(query.state.is_final for query in self.queries.values())

    @property
    def has_failed(self) -> bool:
        """Whether a query of the flow has failed for good."""
        return any(query.state is QueryState.FAILED for query in self.queries.values())

    def begin(self) -> None:
        """Writes the first status. A flow that is to stop, by a request that came while Spark started, is over then.

        Raises `OSError`; later, a status that can't be written is only a warning.
        """
        self._look_for_stop(self._clock())
        if self._stop_requested_at is not None:
            for query in self.queries.values():
                query.end()
            self._remove_stop_file()
        write_status(self._folder, self.status())

    def look(self) -> Iterator[tuple[str, BatchReport]]:
        """Brings the flow forward, and yields the finished micro-batches with their query's role."""
        if self._has_told_its_end:
            return
        was_over, now = self.is_over, self._clock()
        for role, query in self.queries.items():
            if role == DEAD_LETTERS and self._is_too_early_for_dead_letters(now):
                continue
            before = query.failure
            for report in query.look(now):
                yield role, report
            if query.failure is not None and query.failure is not before:
                self._note_failure(role, query, query.failure)
        if self.has_failed and self._stop_requested_at is None:
            self.request_stop()  # a flow without its dead letters, or the reverse, does not go on
        self._look_for_stop(now)
        if self._stop_requested_at is not None:
            self.queries[FLOW].stop_when_idle(now, self._stop_requested_at)
            if DEAD_LETTERS in self.queries:
                self.queries[DEAD_LETTERS].watch_idleness(now)
        if self.queries[FLOW].state.is_final and DEAD_LETTERS in self.queries:
            self._end_dead_letters(self.queries[DEAD_LETTERS], now)
        if self.is_over and not was_over:
            self._remove_stop_file()
        self._report(now)

    def request_stop(self) -> None:
        """Lets the flow end after its micro-batch, as `klamm pipeline stop` does.

        If the request can't be written, the flow ends at once: its source would plan micro-batches without end.
        """
        if self.is_over:
            return
        try:
            folder_at(self._folder).replace(STOP_FILE, b"")
        except OSError as error:
            _logger.warning(
                "flow %s ends at once, because %s/%s can't be written: %s",
                self.flow.name,
                self._folder,
                STOP_FILE,
                error,
            )
            for query in self.queries.values():
                query.end()

    def end(self, failure: str | None = None) -> None:
        """Ends the queries at once, and says so in the status; `failure` is what has ended the run, if it failed."""
        if self._has_told_its_end:
            return
        for query in self.queries.values():
            query.end(has_failed=failure is not None)
        self.message = self.message or failure
        self._remove_stop_file()
        self._report(self._clock())

    def status(self) -> FlowStatus:
        """Returns the flow's status now."""
        now = self._wall_clock()
        queries = {}
        for role, query in self.queries.items():
            failure = query.failure
            queries[role] = QueryStatus(
                state=query.state.value,
                restarts=query.restarts.total,
                error=None if failure is None else failure.line,
                **asdict(query.reports.figures(now)),
            )
        return FlowStatus(
            pipeline=self._place.pipeline,
            flow=self.flow.name,
            environment=self._place.environment,
            state=self._state(),
            runner=self._runner,
            once=self._once,
            started_ms=self._started_ms,
            updated_ms=int(now * 1000),
            queries=queries,
            error=self.message or next((each.error for each in queries.values() if each.error is not None), None),
        )

    def _state(self) -> str:
        states = [query.state for query in self.queries.values()]
        if self.is_over:
            return "failed" if self.has_failed else "stopped"
        if self._stop_requested_at is not None:
            return "stopping"
        if QueryState.WAITING in states:
            return str(QueryState.WAITING.value)
        # Dead letters start later than their flow, which runs already.
        is_starting = self.queries[FLOW].state is QueryState.STARTING
        return str((QueryState.STARTING if is_starting else QueryState.RUNNING).value)

    def _start_dead_letters(self, spark: SparkSession, judgement: Judgement) -> StreamingQuery:
        # After the flow's end, the dead letters end when they have reached it.
        once = self._once or self.queries[FLOW].state.is_final
        return start_dead_letters(spark, self._place, self.flow, judgement, once=once)

    def _is_too_early_for_dead_letters(self, now: float) -> bool:
        """Returns whether the dead letters wait.

        With `once` they wait for the flow's end, up to which they read. Otherwise the first rows of the flow would come
        later if its dead letters started at the same time: the start of a query and its first micro-batch need seconds
        of processor time.
        """
        if self._dead_letters_may_start:
            return False
        if self._once or self._stop_requested_at is not None or self.has_failed:
            return True  # until the flow has ended
        is_at_first_batch = self.queries[FLOW].is_at_first_batch
        self._dead_letters_may_start = not is_at_first_batch or now - self._began_at >= _DEAD_LETTERS_WAIT_S
        return not self._dead_letters_may_start

    def _end_dead_letters(self, letters: SupervisedQuery, now: float) -> None:
        """Lets the dead letters reach the end of the flow, which has ended, and ends them there."""
        if letters.state.is_final:
            return
        if self._flow_ended_at is None:
            self._flow_ended_at = now
        if self._once and self._stop_requested_at is None and not self.has_failed:
            self._dead_letters_may_start = True  # they end by themselves
            return
        # With `once`, a stop may come long after the end of the flow.
        since = max(self._flow_ended_at, self._stop_requested_at or self._flow_ended_at)
        # A flow that can't start, as one that is declared wrong, has nothing for its dead letters to reach.
        if not self.queries[FLOW].has_run or not self._is_behind(now):
            letters.stop_when_idle(now, requested_at=float("-inf"))
        elif now - since >= _CATCH_UP_S or letters.state is QueryState.WAITING:
            letters.end()
        else:
            self._dead_letters_may_start = True
            letters.give_up_start(now, requested_at=since)

    def _is_behind(self, now: float) -> bool:
        """Returns whether the dead letters have not reached the end of the flow, as of at most half a second ago."""
        if self._are_dead_letters_behind and now - self._dead_letters_looked_at >= _STOP_INTERVAL_S:
            self._dead_letters_looked_at = now
            try:
                self._are_dead_letters_behind = are_dead_letters_behind(self._place, self.flow)
            except OSError as error:
                _logger.debug("the checkpoints in %s can't be read: %s", self._folder, error)
                self._are_dead_letters_behind = False
        return self._are_dead_letters_behind

    def _look_for_stop(self, now: float) -> None:
        if self._stop_requested_at is not None or now - self._stop_looked_at < _STOP_INTERVAL_S:
            return
        self._stop_looked_at = now
        try:
            if folder_at(self._folder).read(STOP_FILE) is not None:
                self._stop_requested_at = now
        except OSError as error:
            _logger.debug("the folder %s can't be read: %s", self._folder, error)

    def _remove_stop_file(self) -> None:
        try:
            folder_at(self._folder).remove_file(STOP_FILE)
        except OSError as error:
            _logger.warning("%s/%s can't be removed: %s", self._folder, STOP_FILE, error)

    def _note_failure(self, role: str, query: SupervisedQuery, failure: Failure) -> None:
        if self.message is not None:
            _logger.warning("query %s has failed as well: %s", query.name, failure.line)
            return  # what has ended the flow is not replaced by what follows from it
        file = f"{self._folder}/{_ERROR_FILE}"
        try:
            folder_at(self._folder).replace(_ERROR_FILE, failure.whole.encode())
        except OSError as error:
            file = f"not written ({error})"
        if query.state is not QueryState.FAILED:
            return
        what = f"flow {self.flow.name}" if role == FLOW else f"the dead letters of flow {self.flow.name}"
        restarts = query.restarts.count
        after = (
            "" if failure.is_certain else f" after {restarts} restart{'' if restarts == 1 else 's'} without progress"
        )
        where = "" if failure.batch is None else f" in {_named(failure.batch)}"
        advice = failure.advice or (
            "Remove the cause and run the pipeline again: it goes on "
            f"{'with this micro-batch' if failure.batch else 'where it is'}"
        )
        self.message = f"{what} stopped{after}: {failure.line.rstrip('.')}{where}. {advice}. The whole error: {file}"

    def _report(self, now: float) -> None:
        """Writes the status file if anything has changed, and every few seconds."""
        status = self.status()
        if self._written is not None and now - self._written_at < _STATUS_INTERVAL_S:
            before = replace(self._written, updated_ms=status.updated_ms)
            if _without_time(before) == _without_time(status):
                return
        try:
            write_status(self._folder, status)
            self._has_warned = False
            self._has_told_its_end = status.is_final
        except OSError as error:
            level = logging.DEBUG if self._has_warned else logging.WARNING
            _logger.log(level, "the status of flow %s can't be written: %s", self.flow.name, error)
            self._has_warned = True
        self._written, self._written_at = status, now


def _start_alone(alone: Lock, start: Callable[[], StreamingQuery]) -> StreamingQuery:
    with alone:
        return start()


def _without_time(status: FlowStatus) -> FlowStatus:
    """Returns the status without the figures that change by themselves."""
    queries = {
        role: replace(query, lag_seconds=None, records_per_second=None, remaining_seconds=None)
        for role, query in status.queries.items()
    }
    return replace(status, queries=queries)


def _named(batch: PlannedBatch) -> str:
    """Returns the micro-batch with its first offsets and the offsets after its last."""
    places = [f"{key.topic}-{key.partition} {start} to {end - 1}" for key, (start, end) in batch.ranges.items()]
    shown = ", ".join(places[:10]) + (f" and {len(places) - 10} more partitions" if len(places) > 10 else "")
    return f"micro-batch {batch.batch_id} (offsets {shown or 'none'})"
