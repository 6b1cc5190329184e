"""Tests that Java consumers fetch during rebalances that don't concern them, and read batches beyond their limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest
from tests.interop.client_process import ClientProcess
from tests.interop.fetch_limit_scenarios import FetchLimitScenarios
from tests.interop.fetching_scenarios import SESSION_MS, FetchingScenarios
from tests.interop.java_client import JavaClient

pytestmark = [pytest.mark.java, pytest.mark.timeout(180)]

ASSIGNORS = "org.apache.kafka.clients.consumer"
SESSION = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": "300"}


@pytest.fixture
def new_client(java_client_classpath: str, bootstrap: str) -> Callable[[], ClientProcess]:
    """Returns a function that starts a JVM process with the Java consumers."""
    return lambda: JavaClient(java_client_classpath, bootstrap)


class TestJavaFetching(FetchingScenarios):
    """Scenarios of rebalances in the classic protocol and in the consumer protocol."""

    cooperative: ClassVar[dict[str, str]] = SESSION | {
        "partition_assignment_strategy": f"{ASSIGNORS}.CooperativeStickyAssignor"
    }
    eager: ClassVar[dict[str, str]] = SESSION | {"partition_assignment_strategy": f"{ASSIGNORS}.RangeAssignor"}


class TestJavaFetchLimits(FetchLimitScenarios):
    """Scenarios of fetch limits with Apache Kafka's consumer."""
