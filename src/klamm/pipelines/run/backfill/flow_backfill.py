"""One planned backfill of a flow, step by step: after each step, and within it, the same command can continue it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from klamm.errors import KlammError
from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.declare.sinks import ToFiles, ToTopic
from klamm.pipelines.errors import PipelineError
from klamm.pipelines.run.backfill.backfill_plan import Plan, refuse_unfinished_batch
from klamm.pipelines.run.backfill.backfill_record import Counts
from klamm.pipelines.run.backfill.backfill_rows import BackfillRows, rows_of_range
from klamm.pipelines.run.backfill.backfill_status import BackfillStatus
from klamm.pipelines.run.backfill.hadoop_files import HadoopFiles
from klamm.pipelines.run.backfill.partition_replacement import PartitionReplacement
from klamm.pipelines.run.backfill.topic_output import store_rows, write_stored_rows
from klamm.pipelines.run.error_texts import one_line
from klamm.pipelines.run.flow_queries import use_in_this_thread
from klamm.pipelines.run.pipeline_run import refuse_second_run
from klamm.pipelines.run.place import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["BackfillOutcome", "FlowBackfill"]


class BackfillOutcome(NamedTuple):
    """What a backfill has done."""

    counts: Counts
    partitions: int | None
    """The number of replaced partitions; None for another target than the live sink."""
    doubts: list[str]
    """The doubts about whole partitions that `force` has overridden."""


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
        use_in_this_thread(self._spark)
        with BackfillStatus(self._place, self._flow):
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
            doubts = self._claimed(replacement, rows)
            if doubts and not force:
                record.forget()
                replacement.discard()
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

    def _claimed(self, replacement: PartitionReplacement, rows: BackfillRows) -> list[str]:
        """Claims the files, and returns the doubts. Gives the claim up if it raises an error.

        The order counts: a flow that began after a check could write rows that the check has not seen. Raises
        `PipelineError` if the flow runs, or was killed in a micro-batch while the rows were computed.
        """
        replacement.claim()
        try:
            self._refuse_running_flow()
            refuse_unfinished_batch(self._place, self._flow)
            return replacement.doubts(rows.frame)
        except BaseException:
            replacement.give_up_claim()
            raise

    def _refuse_condition(self, rows: BackfillRows, sink: ToFiles) -> None:
        """Raises `PipelineError` if `--where` chooses rows by other columns than those of the partitions."""
        where = self._record.arguments.where
        if where is None:
            return
        from pyspark.errors import AnalysisException

        try:
            # An empty frame, since Spark would find other columns below a selection.
            self._spark.createDataFrame([], rows.frame.select(*sink.partition_by).schema).where(where)
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
        """Keeps what was read and written, and removes what was needed for a continuation."""
        self._record.phase = "finished"
        self._record.replacement = None
        self._record.store()  # before the rest goes, so that no later command continues with a part of it
        self._record.clean()
