"""Metrics for monitoring and autoscalers, over HTTP in the text format of Prometheus.

prometheus_client renders the page, and separate threads serve it (`metrics_page.py`). The event loop gathers the
figures in steps, at each request of the page. The page is off unless `klamm.metrics.listener` is set.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from klamm.errors import KlammError

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.registry import Collector

    from klamm.broker.services.metrics.metrics_page import MetricsPage

__all__ = ["Figure", "MetricsListener", "MetricsUnavailable", "parse_address"]

_logger = logging.getLogger(__name__)

_HIGHEST_PORT: Final = 65535
_GATHERING_TIMEOUT_S: Final = 10.0
"""If the loop can't gather the figures within this time, the page is served without figures."""


class MetricsUnavailable(KlammError):
    """Raised if the page can't be served. The text says what to do."""


class Figure(NamedTuple):
    """A gauge with its current values, each with the values of its labels."""

    name: str
    documentation: str
    labels: tuple[str, ...]
    values: Sequence[tuple[tuple[str, ...], float]]


def parse_address(text: str) -> tuple[str, int]:
    """Returns the host and the port of `klamm.metrics.listener`. Raises MetricsUnavailable if it is malformed."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > _HIGHEST_PORT:
        raise MetricsUnavailable(f"klamm.metrics.listener: {text!r} is not HOST:PORT, such as 127.0.0.1:9404")
    return host.strip("[]") or "127.0.0.1", int(port)


class MetricsListener:
    """The HTTP server for the metrics of one broker. `gather` runs on the loop that `start` was called on.

    Clients may address the broker by an IP address, by `host`, or by one of `names`.
    """

    def __init__(
        self,
        host: str,
        port: int,
        gather: Callable[[], Coroutine[Any, Any, Sequence[Figure]]],
        names: Collection[str] = (),
    ) -> None:
        self._host = host
        self._port = port
        self._gather = gather
        self._names = names
        self._loop: asyncio.AbstractEventLoop | None = None
        self._page: MetricsPage | None = None

    def start(self) -> int:
        """Binds the socket and returns its port. Raises MetricsUnavailable."""
        try:
            from prometheus_client import CollectorRegistry, make_wsgi_app
        except ImportError as error:
            raise MetricsUnavailable(
                "klamm.metrics.listener is set, but prometheus_client is not installed: pip install '.[metrics]' in a "
                "clone of klamm"
            ) from error
        self._loop = asyncio.get_running_loop()
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_collector(self._gather_now))
        from klamm.broker.services.metrics.metrics_page import MetricsPage

        try:
            page = MetricsPage(self._host, self._port, make_wsgi_app(registry), self._names)
        except OSError as error:
            raise MetricsUnavailable(f"klamm.metrics.listener: {self._host}:{self._port}: {error.strerror}") from error
        page.start()
        self._page = page
        return page.server_port

    def stop(self) -> None:
        """Stops the server. Requests in progress are answered without figures."""
        self._loop = None
        if self._page is not None:
            self._page.stop()
            self._page = None

    def _gather_now(self) -> Sequence[Figure]:
        loop = self._loop
        if loop is None:
            return ()
        future = asyncio.run_coroutine_threadsafe(self._gather(), loop)
        try:
            return future.result(_GATHERING_TIMEOUT_S)
        except TimeoutError:
            future.cancel()
            _logger.warning("metrics: not gathered within %g s", _GATHERING_TIMEOUT_S)
            return ()


def _collector(gather: Callable[[], Sequence[Figure]]) -> Collector:
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.registry import Collector

    class Gauges(Collector):
        """The collector that prometheus_client calls at every request of the page."""

        def collect(self) -> Iterable[Metric]:
            for figure in gather():
                gauge = GaugeMetricFamily(figure.name, figure.documentation, labels=figure.labels)
                for labels, value in figure.values:
                    gauge.add_metric(labels, value)
                yield gauge

    return Gauges()
