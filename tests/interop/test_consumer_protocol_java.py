"""Tests that Apache Kafka's Java consumer works with klamm in the consumer protocol (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest
from tests.interop.client_process import ClientProcess
from tests.interop.consumer_protocol_scenarios import ConsumerProtocolScenarios
from tests.interop.java_client import JavaClient

pytestmark = [pytest.mark.java, pytest.mark.timeout(180)]


@pytest.fixture
def new_client(java_client_classpath: str, bootstrap: str) -> Callable[[], ClientProcess]:
    """Returns a function that starts a JVM process with the Java consumer."""
    return lambda: JavaClient(java_client_classpath, bootstrap)


class TestJavaConsumerProtocol(ConsumerProtocolScenarios):
    """Scenarios of the consumer protocol."""

    classic: ClassVar[dict[str, str]] = {
        "partition_assignment_strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
        "heartbeat_interval_ms": "300",
    }
