"""Tests the lines of a running pipeline."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from klamm.cli.pipeline.run_lines import JsonLines, PlainLines, flow_line
from klamm.pipelines.status.flow_status import FlowStatus, QueryStatus, Runner
from klamm.pipelines.status.query_reports import BatchReport

FIGURES = QueryStatus(
    state="running",
    batch_id=12,
    bad_records=3,
    late_rows=2,
    records_per_second=1234.5,
    lag_records=5000,
    lag_seconds=90.0,
    remaining_seconds=4.05,
    watermark="2026-01-31T12:00:00.000Z",
)
STATUS = FlowStatus(
    pipeline="flights",
    flow="delays",
    environment="test",
    state="running",
    runner=Runner("r", "host", 1, None),
    once=False,
    started_ms=0,
    updated_ms=0,
    queries={"flow": FIGURES},
)


def test_the_line_of_a_flow() -> None:
    """A line has the rate, the lag in records and in time, the estimate of the end, the watermark, bad records and late
    rows."""
    assert flow_line(STATUS) == (
        "delays: running, micro-batch 12, 1,234 records/s, lag 5,000 (90.0 s), done in 4.0 s, watermark "
        "2026-01-31T12:00:00.000Z, 3 bad, 2 late"
    )


def test_the_line_of_a_flow_that_waits_to_restart() -> None:
    """A flow that failed says why, and how often it was restarted."""
    queries = {"flow": QueryStatus(state="waiting to restart", restarts=2)}
    waiting = replace(STATUS, state="waiting to restart", queries=queries, error="ValueError: no")

    assert flow_line(waiting) == "delays: waiting to restart, restarted 2×, ValueError: no"  # noqa: RUF001


def test_plain_lines_come_when_something_changes(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal there is a line for each change of the state, and one every ten seconds."""
    now = [0.0]
    lines = PlainLines(clock=lambda: now[0])

    for at, state in ((0.0, "starting"), (1.0, "running"), (2.0, "running"), (11.5, "running"), (12.0, "stopped")):
        now[0] = at
        lines.show([replace(STATUS, state=state)])

    states = [line.split(",")[0] for line in capsys.readouterr().out.splitlines()]
    assert states == ["delays: starting", "delays: running", "delays: running", "delays: stopped"]


def test_a_line_of_json_for_each_micro_batch(capsys: pytest.CaptureFixture[str]) -> None:
    """Each micro-batch is one line of JSON, with the flow and the query that it belongs to."""
    lines = JsonLines()

    lines.batch(STATUS, "dead-letters", BatchReport(3, "1970-01-01T00:00:03.000Z", 100, 10, 8, 2, 7, None))
    lines.show([STATUS])

    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {
        "pipeline": "flights",
        "environment": "test",
        "flow": "delays",
        "query": "dead-letters",
        "batch_id": 3,
        "started": "1970-01-01T00:00:03.000Z",
        "duration_ms": 100,
        "records": 10,
        "rows": 8,
        "bad_records": 2,
        "lag_records": 7,
        "watermark": None,
        "late_rows": 0,
    }
