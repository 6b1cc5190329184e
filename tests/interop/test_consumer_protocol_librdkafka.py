"""confluent-kafka, which is librdkafka, takes klamm for Apache Kafka in the consumer protocol (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest
from tests.interop.client_process import ClientProcess
from tests.interop.consumer_protocol_scenarios import ConsumerProtocolScenarios
from tests.interop.record_scenarios import PARTITIONS


@pytest.fixture
def new_client(new_python_client: Callable[[str], ClientProcess]) -> Callable[[], ClientProcess]:
    """Starts a process that drives it."""
    return lambda: new_python_client("confluent_kafka")


class TestConfluentConsumerProtocol(ConsumerProtocolScenarios):
    """Consumer groups."""

    # librdkafka's cooperative-sticky keeps notes in assignments, and with those neither Apache Kafka nor klamm upgrades
    # a group: it would lose them.
    classic: ClassVar[dict[str, str]] = {"partition_assignment_strategy": "range", "heartbeat_interval_ms": "300"}

    def test_a_member_that_stops_polling_is_replaced(self, client: ClientProcess, topic: str, group: str) -> None:
        """A member that is alive but does not poll within max.poll.interval.ms leaves, and comes back (KIP-62)."""
        settings = self.joining | {"max_poll_interval_ms": "3000"}
        stuck = client.join("stuck", group, topic, **settings)
        stuck.wait_until(lambda m: m.assignment == list(range(PARTITIONS)), "owns everything")
        other = client.join("other", group, topic, **settings)
        other.wait_until(lambda m: len(m.assignment or []) == 3, "owns half")
        client.call("stall", name="stuck", seconds=6)
        other.wait_until(lambda m: m.assignment == list(range(PARTITIONS)), "takes over")
        stuck.wait_until(lambda m: "lost" in m.names() and len(m.assignment or []) == 3, "comes back")
