"""Runs the flows of a pipeline until they end, fail or are stopped."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from klamm.errors import KlammError
from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.declare.pipeline import Pipeline
from klamm.pipelines.declare.sinks import ToFiles
from klamm.pipelines.errors import PipelineError
from klamm.pipelines.run.backfill.backfill_record import unfinished_replacement
from klamm.pipelines.run.backfill.backfill_status import running_claim
from klamm.pipelines.run.error_texts import one_line
from klamm.pipelines.run.flow_run import FlowRun
from klamm.pipelines.run.place import Place
from klamm.pipelines.run.run_announcement import forget_stop_requests, unwritable_folder
from klamm.pipelines.run.spark_jvm import is_jvm_gone
from klamm.pipelines.status.flow_status import FlowStatus, Runner, is_alive, read_status
from klamm.pipelines.status.query_reports import BatchReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["NO_READER", "PipelineRun", "RunReporter", "chosen_flows", "refuse_run", "refuse_second_run"]

_LOOK_INTERVAL_S: Final = 0.2
_JVM_GONE: Final = (
    "Spark's JVM has ended, perhaps for lack of memory. Run the pipeline again: it goes on from its checkpoints"
)
NO_READER: Final = (
    "the reader of the command's output has closed it, and the flows were ended at once. Run the pipeline again: it "
    "goes on from its checkpoints"
)


class RunReporter(Protocol):
    """Tells people or programs what happens in a run."""

    def batch(self, status: FlowStatus, role: str, report: BatchReport) -> None:
        """Tells of a finished micro-batch of one of the flow's queries."""

    def show(self, statuses: Sequence[FlowStatus]) -> None:
        """Tells the state of all flows; called several times a second."""


class PipelineRun:
    """One run of a pipeline, or of some of its flows."""

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        place: Place,
        flows: Iterable[Flow],
        *,
        once: bool,
        reporters: Sequence[RunReporter] = (),
        runner: Runner | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Prepares the run; `runner` is that of its `RunAnnouncement`, if there is one.

        Raises `PipelineError` as `refuse_run` does.
        """
        flows = list(flows)
        refuse_run(place, flows, int(wall_clock() * 1000), runner=runner)
        if runner is None:
            forget_stop_requests(place, flows)
            runner = Runner.this_process(uuid.uuid4().hex)
        self._spark = spark
        self._place = place
        self._reporters = reporters
        self.flows: Final = [
            FlowRun(
                spark,
                place,
                flow,
                runner=runner,
                max_restarts=pipeline.max_restarts,
                once=once,
                clock=clock,
                wall_clock=wall_clock,
            )
            for flow in flows
        ]
        self._stop_requested = False

    def request_stop(self) -> None:
        """Lets all flows end after their micro-batches. May be called by a signal handler."""
        self._stop_requested = True

    def run(self) -> bool:
        """Runs until all flows have ended. Returns whether none of them has failed.

        Raises `PipelineError` if Spark's JVM ends, if the flows' folders can't be written, or if a backfill has begun
        to replace files of a flow. Raises what a reporter raises.
        """
        has_asked = False
        try:
            for flow in self.flows:
                _begin(flow)
            # A backfill stores that it replaces files, and then looks whether the flow runs. In the opposite order
            # here, at least one of the two sees the other.
            _refuse_replacement(self._place, [flow.flow for flow in self.flows])
            while True:
                if self._stop_requested and not has_asked:
                    has_asked = True
                    for flow in self.flows:
                        flow.request_stop()
                self._look()
                if all(flow.is_over for flow in self.flows):
                    return not any(flow.has_failed for flow in self.flows)
                time.sleep(_LOOK_INTERVAL_S)
        except BaseException as error:
            reason = self._reason(error)
            for flow in self.flows:
                flow.end(reason)
            if reason == _JVM_GONE:
                raise PipelineError(reason) from None
            raise

    def _reason(self, error: BaseException) -> str | None:
        """Returns what has ended the run, for the status; None after a signal, and if the run was refused."""
        if not isinstance(error, Exception):
            return None
        if is_jvm_gone(self._spark):
            return _JVM_GONE
        if isinstance(error, BrokenPipeError):
            return NO_READER
        return None if isinstance(error, KlammError) else one_line(f"{type(error).__name__}: {error}")

    def _look(self) -> None:
        for flow in self.flows:
            status = None
            for role, report in flow.look():
                status = status or flow.status()  # one for all micro-batches since the last look
                for reporter in self._reporters:
                    reporter.batch(status, role, report)
        statuses = [flow.status() for flow in self.flows]
        for reporter in self._reporters:
            reporter.show(statuses)
        # A query that ended with its JVM would be restarted in vain.
        if any(status.error is not None for status in statuses) and is_jvm_gone(self._spark):
            raise PipelineError(_JVM_GONE)


def _begin(run: FlowRun) -> None:
    try:
        run.begin()
    except OSError as error:
        raise unwritable_folder(run.flow, error) from None


def chosen_flows(pipeline: Pipeline, names: Sequence[str]) -> list[Flow]:
    """Returns the flows with these names; all of them without names. Raises `PipelineError` for an unknown name."""
    for name in names:
        if name not in pipeline.flows:
            raise PipelineError(
                f"the pipeline {pipeline.name} has no flow {name}; its flows are {', '.join(pipeline.flows)}"
            )
    return [flow for flow in pipeline.flows.values() if not names or flow.name in names]


def refuse_run(place: Place, flows: Sequence[Flow], now_ms: int, *, runner: Runner | None = None) -> None:
    """Raises `PipelineError` if the flows can't run now: another process than `runner` runs one of them in this
    environment, or a backfill replaces files of one, or their folders can't be read.
    """
    refuse_second_run(place, flows, now_ms, runner=runner)
    _refuse_replacement(place, flows)


def _refuse_replacement(place: Place, flows: Iterable[Flow]) -> None:
    for flow in flows:
        if not isinstance(flow.sink, ToFiles):
            continue
        try:
            found = unfinished_replacement(place, flow) or running_claim(place, flow)
        except OSError as error:
            raise PipelineError(f"the backfills of flow {flow.name} can't be read: {error}") from None
        if found is not None:
            raise PipelineError(
                f"flow {flow.name} can't run while a backfill replaces its files. If the backfill was interrupted, "
                f"finish it with the same command: klamm pipeline backfill … {found.arguments}"
            )


def refuse_second_run(place: Place, flows: Iterable[Flow], now_ms: int, *, runner: Runner | None = None) -> None:
    """Raises `PipelineError` if another process than `runner` runs one of the flows in this environment, or if their
    folders can't be read.
    """
    for flow in flows:
        _refuse_second_run(place, flow, now_ms, runner)


def _refuse_second_run(place: Place, flow: Flow, now_ms: int, own: Runner | None) -> None:
    folder = place.flow_folder(flow.name)
    try:
        status = read_status(folder)
    except ValueError:
        return
    except OSError as error:
        raise PipelineError(f"the status of flow {flow.name} can't be read: {error}") from None
    if status is None or status.runner == own or not is_alive(status, now_ms):
        return
    runner: Any = status.runner
    environment = "" if place.environment is None else f" in the environment {place.environment}"
    raise PipelineError(
        f"process {runner.pid} on {runner.host} runs the flow {flow.name} already{environment} (checkpoints in "
        f"{folder}). `klamm pipeline stop` ends it; another environment or another folder of checkpoints has its own"
    )
