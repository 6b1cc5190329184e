"""Tests the figures for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from klamm.pipelines.status.flow_metrics import FlowMetrics
from klamm.pipelines.status.flow_status import FlowStatus, QueryStatus, Runner
from klamm.pipelines.status.query_reports import BatchReport

REPORT = BatchReport(3, "1970-01-01T00:00:03.000Z", 1500, 10, 8, 2, 7, None, late_rows=3)
STATUS = FlowStatus(
    pipeline="flights",
    flow="delays",
    environment=None,
    state="running",
    runner=Runner("r", "host", 1, None),
    once=False,
    started_ms=0,
    updated_ms=0,
    queries={
        "flow": QueryStatus(state="running", batch_id=3, lag_records=7, restarts=1),
        "dead-letters": QueryStatus(state="starting"),
    },
)


def test_the_figures_of_each_query() -> None:
    """Each query has its gauges and counters; a figure that is not known is left out."""
    metrics = FlowMetrics()
    metrics.batch(STATUS, "flow", REPORT)
    metrics.batch(STATUS, "flow", REPORT)
    metrics.show([STATUS])
    registry = CollectorRegistry()
    registry.register(metrics)

    lines = generate_latest(registry).decode().splitlines()

    flow = '{environment="",flow="delays",pipeline="flights",query="flow"}'
    assert f"klamm_pipeline_lag_records{flow} 7.0" in lines
    assert f"klamm_pipeline_records_total{flow} 20.0" in lines
    assert f"klamm_pipeline_bad_records_total{flow} 4.0" in lines
    assert f"klamm_pipeline_late_rows_total{flow} 6.0" in lines
    assert f"klamm_pipeline_batch_seconds_total{flow} 3.0" in lines
    assert f"klamm_pipeline_restarts_total{flow} 1.0" in lines
    assert not any(line.startswith("klamm_pipeline_lag_seconds{") for line in lines)
    running = [line for line in lines if line.startswith("klamm_pipeline_state{") and line.endswith(" 1.0")]
    assert [line.partition("state=")[2] for line in running] == ['"running"} 1.0', '"starting"} 1.0']
