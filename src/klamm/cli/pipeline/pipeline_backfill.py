"""`klamm pipeline backfill`: computes a range of a flow's topics again, next to the live flow."""

from __future__ import annotations

import argparse
import re
import signal
import sys
import time
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from klamm.cli.arguments import since_ms
from klamm.cli.errors import UsageError
from klamm.cli.output import say, show_rows
from klamm.cli.pipeline.backfill_lines import BackfillLines
from klamm.cli.pipeline.chosen_pipeline import choose_pipeline, session_for
from klamm.errors import KlammError
from klamm.insight.words import count, moment
from klamm.pipelines.declare.flow import Flow
from klamm.pipelines.errors import PipelineError
from klamm.pipelines.run.backfill.backfill_plan import Plan, plan_backfill
from klamm.pipelines.run.backfill.backfill_range import EARLIEST, LATEST, Border
from klamm.pipelines.run.backfill.backfill_record import Arguments
from klamm.pipelines.run.backfill.backfill_target import Target, parse_target
from klamm.pipelines.run.backfill.flow_backfill import BackfillOutcome, FlowBackfill
from klamm.pipelines.run.spark_jvm import stop_session
from klamm.protocol.types import Millis, Offset
from klamm.spark.source.offsets import parse_offsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["RANGE_COLUMNS", "border", "run"]

RANGE_COLUMNS: Final = ("topic", "partition", "from", "to", "offsets")
_END_PATIENCE_S: Final = 30.0
"""How long an interrupted backfill may take to end."""
_CANCEL_INTERVAL_S: Final = 0.5


def run(arguments: argparse.Namespace) -> int:
    """Backfills one flow. Raises KlammError."""
    begin, end, target = _parsed(arguments)
    chosen = choose_pipeline(arguments)
    if len(chosen.flows) != 1:
        raise UsageError(
            f"backfill takes one flow: add --flow NAME. The flows are {', '.join(each.name for each in chosen.flows)}"
        )
    (flow,) = chosen.flows
    own = Arguments(arguments.begin, arguments.end, arguments.into, arguments.where)
    try:
        plan = plan_backfill(
            chosen.place, chosen.pipeline, flow, target, own, borders=(begin, end), appends=arguments.append
        )
    except OSError as error:
        raise _unreadable(flow, error) from error
    show_rows(arguments, RANGE_COLUMNS, list(_rows(plan)))
    again = f", as a backfill that began at {moment(plan.record.begun_ms)} and did not end" if plan.is_continued else ""
    say(arguments, f"flow {flow.name}: {count(plan.size, 'offset')} to read, into {target}{again}")
    if not plan.size:
        return 0
    spark = session_for(arguments, chosen, **{"spark.log.level": "OFF"})
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, _interrupt)
    try:
        with BackfillLines(spark, flow.name, lambda text: say(arguments, text)) as lines:
            backfill = FlowBackfill(spark, chosen.place, flow, plan)
            outcome = _run(spark, partial(backfill.run, lines.report, force=arguments.force))
    except OSError as error:
        raise _unreadable(flow, error) from error
    except KeyboardInterrupt:
        print("klamm pipeline: interrupted; the same command continues the backfill", file=sys.stderr)
        raise
    finally:
        stop_session(spark)
    for doubt in outcome.doubts:
        say(arguments, f"flow {flow.name}: warning: {doubt}")
    say(arguments, f"flow {flow.name}: {', '.join(_told(outcome, target))}")
    return 0


def _unreadable(flow: Flow, error: OSError) -> PipelineError:
    return PipelineError(f"the folders of flow {flow.name} and of its backfills can't be read and written: {error}")


def _run(spark: SparkSession, work: Callable[[], BackfillOutcome]) -> BackfillOutcome:
    """Runs the work in a thread: an interrupt in the midst of a call to the JVM would leave its connection unusable."""
    executor = ThreadPoolExecutor(1, "klamm-backfill")
    try:
        future = executor.submit(work)
        try:
            return future.result()
        except KeyboardInterrupt:
            _end(spark, future)
            raise
    finally:
        executor.shutdown(wait=False)


def _end(spark: SparkSession, future: Future[BackfillOutcome]) -> None:
    """Cancels what Spark does, also a job that begins only now, until the work has ended."""
    deadline = time.monotonic() + _END_PATIENCE_S
    while not future.done() and time.monotonic() < deadline:
        for query in spark.streams.active:
            query.stop()
        spark.sparkContext.cancelAllJobs()
        wait([future], _CANCEL_INTERVAL_S)


def _parsed(arguments: argparse.Namespace) -> tuple[Border, Border | None, Target]:
    """Parses the borders and the target. Raises UsageError, also for an option that has no meaning for the target."""
    try:
        begin = border("--from", arguments.begin)
        end = None if arguments.end is None else border("--to", arguments.end)
        target = parse_target(arguments.into)
    except PipelineError as error:
        raise UsageError(f"--into: {error}") from None
    if arguments.append and not target.is_topic:
        use = "replaces whole partitions" if target.is_live else "writes to a folder that is new or empty"
        raise UsageError(
            f"--append is for topics, and --into {arguments.into} {use}: omit --append, or write topic:NAME"
        )
    if arguments.force and not target.is_live:
        raise UsageError(
            f"--force is for --into live, and --into {arguments.into} replaces nothing: omit --force"
            f"{', or use --append for a topic that has records' if target.is_topic else ''}"
        )
    return begin, end, target


def border(option: str, text: str) -> Border:
    """Parses a border: earliest, latest, an offset, -N, offsets as JSON, a time, or a duration before now.

    Raises UsageError.
    """
    if text in ("earliest", "latest"):
        return EARLIEST if text == "earliest" else LATEST
    if re.fullmatch(r"-?\d+", text):
        return Border(offset=Offset(int(text)))
    try:
        if text.startswith("{"):
            return Border(offsets=parse_offsets(option, text))
        return Border(timestamp_ms=Millis(since_ms(text)))
    except ArgumentTypeError:
        raise UsageError(
            f"{option}: {text!r} is no time such as 2026-01-31T12:00:00, no duration such as 2h, no offset, and not "
            "earliest or latest"
        ) from None
    except KlammError as error:
        raise UsageError(str(error)) from None


def _rows(plan: Plan) -> Iterator[dict[str, Any]]:
    for each in plan.record.ranges.values():
        for key, end in sorted(each.ends.items()):
            start = each.starts[key]
            yield {"topic": key.topic, "partition": key.partition, "from": start, "to": end, "offsets": end - start}


def _told(outcome: BackfillOutcome, target: Target) -> Iterator[str]:
    counts = outcome.counts
    if counts.records is not None and counts.bad_records is not None:
        yield f"{count(counts.records, 'record')} read"
        yield f"{counts.bad_records:,} bad"
    yield f"{'rows' if counts.rows is None else count(counts.rows, 'row')} written to {target}"
    if outcome.partitions is not None:
        yield f"{count(outcome.partitions, 'partition')} replaced"


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
