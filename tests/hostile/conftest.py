"""Fixtures for tests with hostile clients: brokers in separate processes, so that their memory can be measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.interop.broker_process import BrokerProcess


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[Callable[..., BrokerProcess]]:
    """Starts a broker with Kafka's broker keys, underscores for dots: start_broker(socket_request_max_bytes="1000")."""
    started: list[BrokerProcess] = []

    def start(**config: str) -> BrokerProcess:
        folder = tmp_path / f"broker-{len(started)}"
        folder.mkdir()
        started.append(BrokerProcess(folder, {key.replace("_", "."): value for key, value in config.items()}))
        return started[-1]

    yield start
    for broker in started:
        broker.stop()
