"""The page of figures that pipelines and workers serve."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.core import GaugeMetricFamily, Metric

from klamm.prometheus_server import PrometheusServer
from klamm.worker.errors import WorkerError


class _Figures:
    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("answer", "The answer.", value=42)


def test_a_page_is_served_until_it_is_closed() -> None:
    """The page has the collector's figures. A taken port is an error that names the option; after `close` the port is
    free again."""
    first, second = PrometheusServer("metrics=", WorkerError), PrometheusServer("metrics=", WorkerError)
    port = first.serve(_Figures(), "127.0.0.1", 0)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        assert "answer 42.0" in page.read().decode()
    with pytest.raises(WorkerError, match=f"metrics=: 127.0.0.1:{port} can't be listened on"):
        second.serve(_Figures(), "127.0.0.1", port)
    first.close()
    assert second.serve(_Figures(), "127.0.0.1", port) == port
    second.close()
    second.close()
