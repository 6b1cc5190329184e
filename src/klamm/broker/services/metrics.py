"""Figures for monitoring and autoscalers, over HTTP in the text format of Prometheus.

The page is made by prometheus_client and served on threads of its own (`metrics_page.py`); the figures are gathered on
the event loop, in steps, when somebody asks for them. Off unless `klamm.metrics.listener` says where.
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

    from klamm.broker.services.metrics_page import MetricsPage

__all__ = ["Figure", "MetricsListener", "MetricsUnavailable", "parse_address"]

logger = logging.getLogger(__name__)

HIGHEST_PORT: Final = 65535
GATHERING_TIMEOUT_S: Final = 10.0
"""A loop that can't gather its figures in that time has other worries; the page fails, the broker doesn't."""


class MetricsUnavailable(KlammError):
    """The page can't be served; the text says what to do."""


class Figure(NamedTuple):
    """A gauge with the values it has now, each with the values of its labels."""

    name: str
    documentation: str
    labels: tuple[str, ...]
    values: Sequence[tuple[tuple[str, ...], float]]


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `klamm.metrics.listener`. Raises MetricsUnavailable for anything else."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > HIGHEST_PORT:
        raise MetricsUnavailable(f"klamm.metrics.listener: {text!r} is not HOST:PORT, such as 127.0.0.1:9404")
    return host.strip("[]") or "127.0.0.1", int(port)


class MetricsListener:
    """The HTTP server of one broker. `gather` runs on the loop that `start` was called on.

    Clients may call the broker by an IP address, by `host`, or by one of `names`.
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
        """Binds, and returns the port it got. Raises MetricsUnavailable."""
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
        from klamm.broker.services.metrics_page import MetricsPage

        try:
            page = MetricsPage(self._host, self._port, make_wsgi_app(registry), self._names)
        except OSError as error:
            raise MetricsUnavailable(f"klamm.metrics.listener: {self._host}:{self._port}: {error.strerror}") from error
        page.start()
        self._page = page
        return page.server_port

    def stop(self) -> None:
        """Serves no more; what is being asked for is answered without figures."""
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
            return future.result(GATHERING_TIMEOUT_S)
        except TimeoutError:
            future.cancel()
            logger.warning("metrics: not gathered within %g s", GATHERING_TIMEOUT_S)
            return ()


def _collector(gather: Callable[[], Sequence[Figure]]) -> Collector:
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.registry import Collector

    class Gauges(Collector):
        """What prometheus_client asks for at every request of the page."""

        def collect(self) -> Iterable[Metric]:
            for figure in gather():
                gauge = GaugeMetricFamily(figure.name, figure.documentation, labels=figure.labels)
                for labels, value in figure.values:
                    gauge.add_metric(labels, value)
                yield gauge

    return Gauges()
