"""The metric of the broker's session with the metadata store."""

from __future__ import annotations

import asyncio
import logging
import re
import urllib.request
from pathlib import Path

import pytest
from tests.support.event_loop import in_loop
from tests.support.patience import Limit

from klamm.broker.server import BrokerServer
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.memory_store import MemoryMetadata, MemoryStore


async def _metric(port: int) -> float:
    def get() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            return str(answer.read().decode())

    (value,) = re.findall(r"^klamm_metadata_session (\S+)$", await asyncio.to_thread(get), re.MULTILINE)
    return float(value)


@in_loop
async def test_the_metric_tells_whether_the_session_lasts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is 1 while the broker has its session, and 0 between the loss of the session and the stop. The stop begins
    with the metrics page, so nothing else is ever read from a broker that has lost its session."""
    caplog.set_level(logging.INFO, "klamm.broker.server")
    metadata = MemoryMetadata()
    sessions: list[MemoryStore] = []

    async def open_store() -> MemoryStore:
        sessions.append(metadata.connect())
        return sessions[-1]

    own = {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0", "klamm.metrics.listener": "127.0.0.1:0"}
    server = BrokerServer(BrokerConfig.load(own, profile="test"), open_files=64, open_store=open_store)
    try:
        await server.start()
        (port,) = [int(match[1]) for match in map(re.compile(r"port (\d+) of ").search, caplog.messages) if match]
        assert await _metric(port) == 1
        sessions[0].lose()
        limit = Limit(30)
        while server.services.has_session:
            assert not limit.is_over
            await asyncio.sleep(0.01)
        assert await _metric(port) == 0
    finally:
        await server.stop()
    with pytest.raises(OSError, match="refused"):
        await _metric(port)
