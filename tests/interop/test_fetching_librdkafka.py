"""Tests that librdkafka's consumers fetch during rebalances that don't concern them, and read batches beyond their
limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest
from tests.interop.client_process import ClientProcess
from tests.interop.fetch_limit_scenarios import LIMIT_BYTES, FetchLimitScenarios
from tests.interop.fetching_scenarios import SESSION_MS, FetchingScenarios

SESSION = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": "300"}


@pytest.fixture
def new_client(new_python_client: Callable[[str], ClientProcess]) -> Callable[[], ClientProcess]:
    """Returns a function that starts a process with confluent-kafka."""
    return lambda: new_python_client("confluent_kafka")


class TestConfluentFetching(FetchingScenarios):
    """Scenarios of rebalances in the classic protocol and in the consumer protocol."""

    cooperative: ClassVar[dict[str, str]] = SESSION | {"partition_assignment_strategy": "cooperative-sticky"}
    eager: ClassVar[dict[str, str]] = SESSION | {"partition_assignment_strategy": "range"}


class TestConfluentFetchLimits(FetchLimitScenarios):
    """Scenarios of fetch limits. librdkafka requires that fetch.max.bytes is not smaller than message.max.bytes."""

    of_a_response: ClassVar[dict[str, str]] = FetchLimitScenarios.of_a_response | {
        "message.max.bytes": str(LIMIT_BYTES)
    }
