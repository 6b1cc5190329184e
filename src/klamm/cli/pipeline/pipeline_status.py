"""`klamm pipeline status`: shows the status files of a pipeline's flows."""

from __future__ import annotations

import argparse
import time
from typing import Any, Final

from klamm.cli.output import say, show_rows
from klamm.cli.pipeline.chosen_pipeline import choose_pipeline
from klamm.insight.words import moment, span
from klamm.pipelines.run.flow_run import DEAD_LETTERS
from klamm.pipelines.status.flow_status import FlowStatus, is_alive, read_status

__all__ = ["STATUS_COLUMNS", "run"]

STATUS_COLUMNS: Final = (
    "flow",
    "state",
    "batch",
    "records_s",
    "lag",
    "lag_seconds",
    "watermark",
    "bad",
    "dead_letters_lag",
    "restarts",
    "host",
    "pid",
    "updated",
    "error",
)
_GONE: Final = "gone"
"""The state of a flow whose process has ended without saying so."""


def run(arguments: argparse.Namespace) -> int:
    """Shows the flows. Returns 1 if one of them has failed, is gone, or has a status that can't be read.

    Raises KlammError.
    """
    chosen = choose_pipeline(arguments)
    now_ms = time.time_ns() // 1_000_000
    rows, problems = [], []
    for flow in chosen.flows:
        try:
            status = read_status(chosen.place.flow_folder(flow.name))
        except (OSError, ValueError) as error:
            rows.append({"flow": flow.name, "state": "unreadable"})
            problems.append(f"the status of flow {flow.name} can't be read: {error}")
            continue
        if status is None:
            rows.append({"flow": flow.name, "state": "never run"})
            continue
        is_gone = not status.is_final and not is_alive(status, now_ms)
        rows.append(_row(status, is_table=arguments.output == "table", is_gone=is_gone))
        if is_gone:
            problems.append(
                f"flow {flow.name}: process {status.runner.pid} on {status.runner.host} is gone; it wrote last "
                f"{span(now_ms - status.updated_ms)} ago. `klamm pipeline run` goes on from the checkpoint"
            )
        elif status.state == "failed":
            problems.append(status.error or f"flow {flow.name} has failed")
    show_rows(arguments, STATUS_COLUMNS, rows)
    for problem in problems:
        say(arguments, problem)
    return 1 if problems else 0


def _row(status: FlowStatus, *, is_table: bool, is_gone: bool) -> dict[str, Any]:
    figures, dead_letters = status.figures, status.queries.get(DEAD_LETTERS)
    rate, age = figures.records_per_second, figures.lag_seconds
    return {
        "flow": status.flow,
        "state": _GONE if is_gone else status.state,
        "batch": figures.batch_id,
        "records_s": None if rate is None else round(rate, 1),
        "lag": figures.lag_records,
        "lag_seconds": None if age is None else round(age, 1),
        "watermark": figures.watermark,
        "bad": figures.bad_records,
        "dead_letters_lag": None if dead_letters is None else dead_letters.lag_records,
        "restarts": sum(query.restarts for query in status.queries.values()),
        "host": status.runner.host,
        "pid": status.runner.pid,
        "updated": moment(status.updated_ms) if is_table else status.updated_ms,
        "error": figures.error or (dead_letters.error if dead_letters is not None else None),
    }
