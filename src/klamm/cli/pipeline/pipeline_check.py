"""`klamm pipeline check`: shows what a pipeline would do, without running it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, Final

from klamm.cli.output import show_rows
from klamm.cli.pipeline.chosen_pipeline import choose_pipeline, session_for
from klamm.insight.words import count
from klamm.pipelines.run.flow_check import FlowCheck, SourceCheck, check_flow
from klamm.pipelines.run.spark_jvm import stop_session

__all__ = ["CHECK_COLUMNS", "run"]

CHECK_COLUMNS: Final = (
    "flow",
    "source",
    "topics",
    "partitions",
    "group",
    "starts_at",
    "to_read",
    "decoder",
    "columns_in",
    "columns_out",
    "sink",
    "bad_records",
    "problems",
    "warnings",
)


def run(arguments: argparse.Namespace) -> int:
    """Checks the flows; returns 1 if one of them would fail. Raises KlammError."""
    chosen = choose_pipeline(arguments)
    spark = session_for(arguments, chosen, **{"spark.log.level": "OFF"})
    try:
        checks = [check_flow(spark, chosen.place, flow) for flow in chosen.flows]
    finally:
        stop_session(spark)
    if arguments.output == "table":
        for check in checks:
            print("\n".join(_lines(check)))
    else:
        show_rows(arguments, CHECK_COLUMNS, [row for check in checks for row in _rows(check)])
    return 1 if any(check.problems for check in checks) else 0


def _lines(check: FlowCheck) -> Iterator[str]:
    yield f"flow {check.flow}"
    for source in check.sources:
        partitions = "" if source.partitions is None else f", {count(source.partitions, 'partition')}"
        yield f"  reads      {source.topics}{partitions}, as {source.decoder}: {source.columns or 'unknown columns'}"
        yield f"  group      {source.group}"
        if source.starts_at is not None:
            yield f"  starts at  {source.starts_at}, {count(source.to_read or 0, 'offset')} to read"
        for note in source.notes:
            yield f"  note       {note}"
    if check.sink is not None:
        yield f"  writes     {check.sink}{'' if check.columns is None else f': {check.columns}'}"
    if check.bad_records is not None:
        yield f"  bad        {check.bad_records}"
    for warning in check.warnings:
        yield f"  warning    {warning}"
    for problem in check.problems:
        yield f"  problem    {problem}"


def _rows(check: FlowCheck) -> Iterator[dict[str, Any]]:
    for source in check.sources or [SourceCheck("", "", "", "")]:
        yield {
            "flow": check.flow,
            "source": source.parameter,
            "topics": source.topics,
            "partitions": source.partitions,
            "group": source.group,
            "starts_at": source.starts_at,
            "to_read": source.to_read,
            "decoder": source.decoder,
            "columns_in": source.columns,
            "columns_out": check.columns,
            "sink": check.sink,
            "bad_records": check.bad_records,
            "problems": "; ".join(check.problems),
            "warnings": "; ".join([*check.warnings, *source.notes]),
        }
