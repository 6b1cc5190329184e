"""The metrics page, as a scraper gets it."""

from __future__ import annotations

import asyncio
import socket
import urllib.request
from collections.abc import Sequence

import pytest
from tests.support.event_loop import in_loop

from klamm.broker.services.metrics.metrics import Figure, MetricsListener, MetricsUnavailable


async def page(port: int) -> str:
    """Returns the text of the metrics page."""

    def get() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    return await asyncio.to_thread(get)


@in_loop
async def test_the_page_has_the_figures_of_the_moment() -> None:
    """The metrics page shows current values; each request collects them on the event loop."""
    lags = iter([5.0, 7.0])

    async def gather() -> Sequence[Figure]:
        await asyncio.sleep(0)
        return [Figure("klamm_group_lag", "Records to read.", ("group",), [(("orders",), next(lags))])]

    listener = MetricsListener("127.0.0.1", 0, gather)
    port = listener.start()
    try:
        first = await page(port)
        assert "# HELP klamm_group_lag Records to read." in first
        assert 'klamm_group_lag{group="orders"} 5.0' in first
        assert 'klamm_group_lag{group="orders"} 7.0' in await page(port)
    finally:
        await asyncio.to_thread(listener.stop)


@in_loop
async def test_a_port_that_is_taken_is_named() -> None:
    """The error for a port in use names the configuration key and the address."""

    async def gather() -> Sequence[Figure]:
        return []

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(MetricsUnavailable, match=rf"klamm.metrics.listener: 127.0.0.1:{port}"):
            MetricsListener("127.0.0.1", port, gather).start()
