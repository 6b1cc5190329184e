"""Serves figures for Prometheus from a program that uses klamm: a pipeline, a worker.

A broker has its own page (`broker/services/metrics/metrics_page.py`), because its event loop gathers the figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from klamm.errors import KlammError

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

__all__ = ["PrometheusServer"]


class PrometheusServer:
    """The page of one collector, in a thread of this process, from `serve` to `close`."""

    def __init__(self, option: str, error: type[KlammError]) -> None:
        """Creates the server. `option` is what the user wrote to ask for it; `error` is raised if it can't be had."""
        self._option = option
        self._error = error
        self._server: Any = None

    def serve(self, collector: Collector, host: str, port: int) -> int:
        """Starts the server, and returns its port. Raises the error without prometheus-client or the address."""
        try:
            from prometheus_client import CollectorRegistry, start_http_server
        except ImportError:
            raise self._error(
                f"{self._option} needs prometheus-client. Run: pip install '.[metrics]' in a clone of klamm"
            ) from None
        registry = CollectorRegistry()
        registry.register(collector)
        try:
            self._server, _ = start_http_server(port, host, registry)
        except OSError as error:
            raise self._error(f"{self._option}: {host}:{port} can't be listened on: {error}") from None
        return int(self._server.server_port)

    def close(self) -> None:
        """Stops the server. Does nothing if it does not run."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
