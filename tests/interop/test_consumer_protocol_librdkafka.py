"""Tests that confluent-kafka (librdkafka) works with klamm in the consumer protocol (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest
from tests.interop.client_process import ClientProcess
from tests.interop.consumer_protocol_scenarios import ConsumerProtocolScenarios
from tests.interop.record_scenarios import PARTITIONS


@pytest.fixture
def new_client(new_python_client: Callable[[str], ClientProcess]) -> Callable[[], ClientProcess]:
    """Returns a function that starts a process with confluent-kafka."""
    return lambda: new_python_client("confluent_kafka")


class TestConfluentConsumerProtocol(ConsumerProtocolScenarios):
    """Scenarios of the consumer protocol."""

    # librdkafka's cooperative-sticky assignor stores user data in assignments. Neither Apache Kafka nor klamm upgrades
    # such a group, because the upgrade would lose the user data.
    classic: ClassVar[dict[str, str]] = {"partition_assignment_strategy": "range", "heartbeat_interval_ms": "300"}

    @pytest.mark.usefixtures("short_sessions")  # librdkafka sends no heartbeats any more, and does not leave
    def test_a_member_that_stops_polling_is_replaced(self, client: ClientProcess, topic: str, group: str) -> None:
        """A member that does not poll within max.poll.interval.ms loses its partitions, and joins again when it polls
        (KIP-62)."""
        settings = self.joining | {"max_poll_interval_ms": "3000"}
        stuck = client.join("stuck", group, topic, **settings)
        stuck.wait_until(lambda m: m.assignment == list(range(PARTITIONS)), "owns everything")
        other = client.join("other", group, topic, **settings)
        other.wait_until(lambda m: len(m.assignment or []) == 3, "owns half")
        client.call("hold", name="stuck")
        other.wait_until(lambda m: m.assignment == list(range(PARTITIONS)), "takes over")
        client.call("release", name="stuck")
        stuck.wait_until(lambda m: "lost" in m.names() and len(m.assignment or []) == 3, "comes back")
