"""A scripted broker and a client with short timeouts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.support.scripted_broker import ScriptedBroker

from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as running:
        yield running


@pytest.fixture
def config(broker: ScriptedBroker) -> ClientConfig:
    return ClientConfig(
        (broker.address,),
        request_timeout_ms=2_000,
        default_api_timeout_ms=3_000,
        retry_backoff_ms=1,
        retry_backoff_max_ms=5,
        fetch_max_wait_ms=1,
    )


@pytest.fixture
def cluster(config: ClientConfig) -> Iterator[Cluster]:
    client = Cluster(config)
    yield client
    client.close()
