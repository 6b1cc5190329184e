"""The figures of a running worker for Prometheus, over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from klamm.prometheus_server import PrometheusServer
from klamm.worker.errors import WorkerError
from klamm.worker.handler_progress import HandlerProgress

if TYPE_CHECKING:
    from prometheus_client.core import Metric

__all__ = ["WorkerMetrics"]

_LABELS: Final = ("group", "handler")
_COUNTERS: Final = (
    ("klamm_worker_handled_records", "handled", "Records that the handler has finished."),
    ("klamm_worker_failed_attempts", "failed_attempts", "Calls of the handler that failed."),
    ("klamm_worker_dead_letters", "dead_letters", "Records that were written to the dead letters."),
)
_GAUGES: Final = (
    ("klamm_worker_records_in_flight", "in_flight", "Records that were received and are not finished."),
    ("klamm_worker_bytes_in_flight", "in_flight_bytes", "Bytes of the records in flight."),
    ("klamm_worker_records_running", "running", "Records that the handler has at the moment."),
    ("klamm_worker_records_waiting", "waiting", "Failed records that wait for their next attempt."),
    ("klamm_worker_partitions", "partitions", "Partitions that this member owns."),
    ("klamm_worker_paused_partitions", "paused", "Partitions of which no more is read for now."),
    ("klamm_worker_held_seconds", "held_seconds", "How long a record has held up a commit; the longest."),
    ("klamm_worker_hot_key_records", "hot_records", "Records in flight of the key that has the most."),
)


class WorkerMetrics:
    """Serves the present figures."""

    def __init__(self, group: str, measure: Callable[[], tuple[HandlerProgress, ...]]) -> None:
        self._group = group
        self._measure = measure
        self._server = PrometheusServer("metrics=", WorkerError)

    def serve(self, host: str, port: int) -> int:
        """Starts the server, in a thread of this process; returns its port. Raises WorkerError."""
        return self._server.serve(self, host, port)

    def close(self) -> None:
        """Stops the server."""
        self._server.close()

    def collect(self) -> Iterator[Metric]:
        """Yields the figures; prometheus-client calls this for each request."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        all_progress = self._measure()
        kinds: tuple[tuple[Any, Any], ...] = ((CounterMetricFamily, _COUNTERS), (GaugeMetricFamily, _GAUGES))
        for family, metrics in kinds:
            for name, field, words in metrics:
                metric = family(name, words, labels=_LABELS)
                for progress in all_progress:
                    metric.add_metric((self._group, progress.handler), getattr(progress, field))
                yield metric
