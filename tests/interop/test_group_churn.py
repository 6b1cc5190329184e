"""Tests that groups of confluent-kafka survive churn, in both protocols and with eager and cooperative assignors."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest
from tests.interop.churn_scenarios import SESSION_MS, ChurnScenarios
from tests.interop.client_process import ClientProcess

CLASSIC = {
    "session_timeout_ms": SESSION_MS,
    "heartbeat_interval_ms": "100",
    "topic_metadata_refresh_interval_ms": "500",
}


@pytest.fixture
def new_client(new_python_client: Callable[[str], ClientProcess]) -> Callable[[], ClientProcess]:
    """Returns a function that starts a process with confluent-kafka."""
    return lambda: new_python_client("confluent_kafka")


class TestEagerGroups(ChurnScenarios):
    """Classic groups with the range assignor, whose members give up all partitions in each rebalance."""

    settings: ClassVar[dict[str, str]] = CLASSIC | {"partition_assignment_strategy": "range"}
    is_incremental: ClassVar[bool] = False


class TestCooperativeGroups(ChurnScenarios):
    """Classic groups with an incremental assignor (KIP-429)."""

    settings: ClassVar[dict[str, str]] = CLASSIC | {"partition_assignment_strategy": "cooperative-sticky"}


class TestConsumerGroups(ChurnScenarios):
    """Consumer groups (KIP-848)."""

    settings: ClassVar[dict[str, str]] = {"group_protocol": "consumer"}
