"""One backfill of a flow: its range, its rows, and what is written, step by step, so that it can be continued."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from klamm.errors import KlammError
from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.declare.pipeline import Pipeline
from klamm.pipelines.declare.sinks import ToFiles, ToTopic
from klamm.pipelines.errors import PipelineError
from klamm.pipelines.run.backfill.backfill_range import Border, SourceRange, resolve_range
from klamm.pipelines.run.backfill.backfill_record import (
    Arguments,
    BackfillRecord,
    Counts,
    backfills_folder,
    read_records,
    unfinished,
)
from klamm.pipelines.run.backfill.backfill_rows import BackfillRows, rows_of_range
from klamm.pipelines.run.backfill.backfill_target import Target, has_records, refuse_place_in_use, target_sink
from klamm.pipelines.run.backfill.hadoop_files import HadoopFiles
from klamm.pipelines.run.backfill.partition_replacement import PartitionReplacement, refuse_unread
from klamm.pipelines.run.backfill.topic_output import store_rows, write_stored_rows
from klamm.pipelines.run.checkpoint_reader import end_of_finished
from klamm.pipelines.run.error_texts import one_line
from klamm.pipelines.run.flow_identity import refuse_changes
from klamm.pipelines.run.pipeline_run import refuse_second_run
from klamm.pipelines.run.place import Place
from klamm.pipelines.status.flow_status import FlowStatus, QueryStatus, Runner, is_alive, read_status, write_status

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["BackfillOutcome", "FlowBackfill", "Plan", "plan_backfill"]

_STATUS_INTERVAL_S: Final = 5.0


class Plan(NamedTuple):
    """A backfill that can begin, or continue."""

    target: Target
    sink: ToTopic | ToFiles
    record: BackfillRecord
    is_continued: bool

    @property
    def size(self) -> int:
        """The number of offsets to read."""
        return sum(each.size for each in self.record.ranges.values())


class BackfillOutcome(NamedTuple):
    """What a backfill has done."""

    counts: Counts
    partitions: int | None
    """The number of replaced partitions; None for another target than the live sink."""
    doubts: list[str]
    """The doubts about whole partitions that `force` has overridden."""


def plan_backfill(
    place: Place,
    pipeline: Pipeline,
    flow: Flow,
    target: Target,
    arguments: Arguments,
    *,
    borders: tuple[Border, Border | None],
    appends: bool = False,
) -> Plan:
    """Returns the plan, with the range of an interrupted backfill with the same arguments, or else with a new one.

    Without a border for the end, a range ends where the log ends now, or for the live sink, where the flow is.
    Raises `PipelineError` for a target that is in use, and what the cluster raises.
    """
    sink = target_sink(flow, target)
    refuse_place_in_use(place, pipeline, flow, target)
    _refuse_second_backfill(place, flow)
    if target.is_live:
        refuse_changes(place, flow)
        for other in read_records(place, flow):
            if other.phase == "replacing" and other.arguments != arguments:
                raise PipelineError(
                    f"flow {flow.name}: a backfill was interrupted while it replaced files. Finish it first: "
                    f"{other.arguments}"
                )
    record = unfinished(place, flow, arguments)
    if record is not None:
        return Plan(target, sink, record, is_continued=True)
    if target.is_topic and not appends and has_records(place, target.name):
        raise PipelineError(
            f"the topic {target.name} has records already. Choose another topic, or write to this one with --append"
        )
    begin, end = borders
    ranges = {}
    for parameter in flow.sources:
        if target.is_live:
            ranges[parameter] = _range_of_live(place, flow, parameter, begin, end)
        else:
            ranges[parameter] = resolve_range(place, flow, parameter, begin, end or Border())
    folder = f"{backfills_folder(place, flow)}/{arguments.id}"
    return Plan(target, sink, BackfillRecord(folder, arguments, ranges, time.time_ns() // 1_000_000), False)


class FlowBackfill:
    """A planned backfill."""

    def __init__(self, spark: SparkSession, place: Place, flow: Flow, plan: Plan) -> None:
        self._spark = spark
        self._place = place
        self._flow = flow
        self._plan = plan
        self._record = plan.record

    def run(self, report: Callable[[str], None], *, force: bool = False) -> BackfillOutcome:
        """Runs the backfill to its end. `report` is told what it does now; `force` overrides doubts about partitions.

        Raises `PipelineError`. After an error, or the end of the process, the same backfill can be planned again.
        """
        record, plan = self._record, self._plan
        with _Status(self._place, self._flow):
            try:
                if record.phase == "computing" and not plan.is_continued:
                    self._claim()
                if plan.target.is_live:
                    return self._replace(report, force=force)
                if record.phase == "computing":
                    rows = self._rows()
                    report("computing")
                    if isinstance(plan.sink, ToTopic):
                        store_rows(rows.frame, record)
                    else:
                        self._write_files(rows, plan.sink)
                    record.counts = rows.counts()
                    record.phase = "computed"
                    record.store()
                if isinstance(plan.sink, ToTopic) and record.counts.rows != 0:
                    report("writing")
                    of = "" if record.counts.rows is None else f" of {record.counts.rows:,}"
                    write_stored_rows(
                        self._spark,
                        self._place,
                        plan.sink,
                        record,
                        lambda written: report(f"writing, {written:,}{of} rows"),
                    )
                self._finish()
                return BackfillOutcome(record.counts, None, [])
            except KlammError:
                raise
            except Exception as error:
                text = one_line(f"{type(error).__name__}: {error}")
                raise PipelineError(
                    f"flow {self._flow.name}: the backfill has failed: {text}. The same command continues it"
                ) from error

    def _claim(self) -> None:
        """Stores the range, before anything is written. Raises `PipelineError` for a folder that has files."""
        target = self._plan.target
        if not target.is_topic and not target.is_live and not HadoopFiles(self._spark, target.name).is_empty():
            raise PipelineError(f"the folder {target.name} is not empty: choose another one, or remove it")
        self._record.forget()  # what a finished backfill with the same arguments has left
        self._record.store()

    def _rows(self) -> BackfillRows:
        record = self._record
        return rows_of_range(
            self._spark, self._place, self._flow, self._plan.sink, record.ranges, where=record.arguments.where
        )

    def _write_files(self, rows: BackfillRows, sink: ToFiles) -> None:
        writer = rows.frame.write.format(sink.format).options(**sink.options).mode("overwrite")
        writer = writer.partitionBy(*sink.partition_by) if sink.partition_by else writer
        writer.option("partitionOverwriteMode", "static").save(sink.path)

    def _replace(self, report: Callable[[str], None], *, force: bool) -> BackfillOutcome:
        record, sink = self._record, self._plan.sink
        assert isinstance(sink, ToFiles)
        replacement = PartitionReplacement(self._spark, self._place, self._flow, sink, record)
        doubts: list[str] = []
        if record.phase != "replacing":
            rows = self._rows()
            self._refuse_condition(rows, sink)
            if record.phase == "computing":
                report("computing")
                replacement.write_rows(rows.frame)
                record.counts = rows.counts()
                record.phase = "computed"
                record.store()
            self._refuse_running_flow()
            report("checking")
            doubts = replacement.doubts(rows.frame)
            if doubts and not force:
                replacement.discard()
                record.forget()
                raise PipelineError(
                    f"flow {self._flow.name}: partitions might be replaced by a part of their data: "
                    f"{'; '.join(doubts)}. Nothing is changed. Choose a range with whole partitions, or with --where "
                    "those partitions that are whole in it; --force replaces them nevertheless"
                )
            replacement.prepare()
        self._refuse_running_flow()
        report("replacing")
        partitions = replacement.finish()
        self._finish()
        return BackfillOutcome(record.counts, partitions, doubts)

    def _refuse_condition(self, rows: BackfillRows, sink: ToFiles) -> None:
        """Raises `PipelineError` if `--where` chooses rows by other columns than those of the partitions."""
        where = self._record.arguments.where
        if where is None:
            return
        from pyspark.errors import AnalysisException

        try:
            _ = rows.frame.select(*sink.partition_by).where(where).schema
        except AnalysisException:
            self._record.forget()
            raise PipelineError(
                f"--where {where!r}: with --into live it can only name the columns {', '.join(sink.partition_by)}: "
                "otherwise partitions would be replaced by a part of their rows"
            ) from None

    def _refuse_running_flow(self) -> None:
        try:
            refuse_second_run(self._place, [self._flow], time.time_ns() // 1_000_000)
        except PipelineError:
            raise PipelineError(
                f"flow {self._flow.name} runs, and its files can't be replaced meanwhile. The rows are computed and "
                "kept: end it with `klamm pipeline stop`, and run the same command again"
            ) from None

    def _finish(self) -> None:
        """Keeps what was read and written, and removes the rest of the folder."""
        self._record.forget()
        self._record.phase = "finished"
        self._record.replacement = None
        self._record.store()


class _Status:
    """The status file of a flow's backfills while one runs; it lets no second one begin."""

    def __init__(self, place: Place, flow: Flow) -> None:
        self._folder = backfills_folder(place, flow)
        now = time.time_ns() // 1_000_000
        self._status = FlowStatus(
            pipeline=place.pipeline,
            flow=f"{flow.name}.backfill",
            environment=place.environment,
            state="running",
            runner=Runner.this_process(uuid.uuid4().hex),
            once=True,
            started_ms=now,
            updated_ms=now,
            queries={"flow": QueryStatus("running")},
        )
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._refresh, name="klamm-backfill-status", daemon=True)

    def __enter__(self) -> None:
        self._write("running")
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._write("stopped" if kind is None else "failed")

    def _refresh(self) -> None:
        while not self._is_over.wait(_STATUS_INTERVAL_S):
            self._write("running")

    def _write(self, state: str) -> None:
        now = time.time_ns() // 1_000_000
        write_status(self._folder, replace(self._status, state=state, updated_ms=now))


def _range_of_live(place: Place, flow: Flow, parameter: str, begin: Border, end: Border | None) -> SourceRange:
    finished = end_of_finished(place.checkpoint(flow.name))
    if not finished:
        raise PipelineError(f"flow {flow.name} has not run yet, so its sink has nothing that could be replaced")
    found = resolve_range(place, flow, parameter, begin, end or Border())
    if end is None:
        ends = {
            key: max(found.starts[key], min(offset, finished.get(key, found.starts[key])))
            for key, offset in found.ends.items()
        }
        return SourceRange(found.starts, ends)
    refuse_unread(flow, {parameter: found}, finished)
    return found


def _refuse_second_backfill(place: Place, flow: Flow) -> None:
    try:
        status = read_status(backfills_folder(place, flow))
    except ValueError:
        return
    if status is not None and is_alive(status, time.time_ns() // 1_000_000):
        raise PipelineError(
            f"process {status.runner.pid} on {status.runner.host} runs a backfill of flow {flow.name} already"
        )
