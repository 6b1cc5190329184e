"""The figures of a running pipeline for Prometheus, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from klamm.pipelines.errors import PipelineError
from klamm.pipelines.status.flow_status import FlowStatus, QueryStatus
from klamm.pipelines.status.query_reports import BatchReport
from klamm.prometheus_server import PrometheusServer

if TYPE_CHECKING:
    from prometheus_client.core import Metric

__all__ = ["FlowMetrics"]

_LABELS: Final = ("pipeline", "environment", "flow", "query")
_STATES: Final = ("starting", "running", "waiting to restart", "stopped", "failed")


@dataclass(slots=True)
class _Totals:
    """The counters of one query in this run."""

    batches: int = 0
    records: int = 0
    bad_records: int = 0
    late_rows: int = 0
    batch_seconds: float = 0.0


class FlowMetrics:
    """Serves the figures of the last `show`. A reporter of a run."""

    def __init__(self) -> None:
        self._statuses: Sequence[FlowStatus] = ()
        self._totals: dict[tuple[str, str], _Totals] = {}
        self._server = PrometheusServer("--metrics", PipelineError)

    def serve(self, host: str, port: int) -> int:
        """Starts the server, in a thread of this process; returns its port. Raises `PipelineError`."""
        return self._server.serve(self, host, port)

    def close(self) -> None:
        """Stops the server."""
        self._server.close()

    def batch(self, status: FlowStatus, role: str, report: BatchReport) -> None:
        """Counts a finished micro-batch."""
        totals = self._totals.setdefault((status.flow, role), _Totals())
        totals.batches += 1
        totals.records += report.records
        totals.bad_records += report.bad_records
        totals.late_rows += report.late_rows
        totals.batch_seconds += report.duration_ms / 1000

    def show(self, statuses: Sequence[FlowStatus]) -> None:
        """Takes the present figures."""
        self._statuses = statuses

    def collect(self) -> Iterator[Metric]:
        """Yields the figures; prometheus-client calls this for each request."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        gauges: tuple[tuple[str, str, str], ...] = (
            ("klamm_pipeline_lag_records", "Records that the query has not read yet.", "lag_records"),
            (
                "klamm_pipeline_lag_seconds",
                "Age of the newest record read; 0 if there is nothing to read.",
                "lag_seconds",
            ),
            (
                "klamm_pipeline_records_per_second",
                "Records read per second, over the last minute.",
                "records_per_second",
            ),
            ("klamm_pipeline_last_batch_id", "The last finished micro-batch.", "batch_id"),
        )
        for name, documentation, attribute in gauges:
            gauge = GaugeMetricFamily(name, documentation, labels=_LABELS)
            for labels, query in self._queries():
                value = getattr(query, attribute)
                if value is not None:
                    gauge.add_metric(labels, value)
            yield gauge
        state = GaugeMetricFamily("klamm_pipeline_state", "1 for the query's state.", labels=(*_LABELS, "state"))
        for labels, query in self._queries():
            for word in _STATES:
                state.add_metric([*labels, word], float(query.state == word))
        yield state
        restarts = CounterMetricFamily(
            "klamm_pipeline_restarts", "Restarts of the query after failures, in this run.", labels=_LABELS
        )
        for labels, query in self._queries():
            restarts.add_metric(labels, query.restarts)
        yield restarts
        counters: tuple[tuple[str, str, str], ...] = (
            ("klamm_pipeline_batches", "Finished micro-batches, in this run.", "batches"),
            ("klamm_pipeline_records", "Records read, in this run.", "records"),
            ("klamm_pipeline_bad_records", "Bad records, in this run.", "bad_records"),
            ("klamm_pipeline_late_rows", "Rows dropped behind the watermark, in this run.", "late_rows"),
            ("klamm_pipeline_batch_seconds", "Time in finished micro-batches, in this run.", "batch_seconds"),
        )
        for name, documentation, attribute in counters:
            counter = CounterMetricFamily(name, documentation, labels=_LABELS)
            for labels, _ in self._queries():
                totals = self._totals.get((labels[2], labels[3]), _Totals())
                counter.add_metric(labels, getattr(totals, attribute))
            yield counter

    def _queries(self) -> Iterator[tuple[list[str], QueryStatus]]:
        for status in self._statuses:
            for role, query in status.queries.items():
                yield [status.pipeline, status.environment or "", status.flow, role], query
