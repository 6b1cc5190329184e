"""Tests that confluent-kafka (librdkafka) works with klamm as with Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.interop.client_process import ClientProcess
from tests.interop.group_scenarios import GroupScenarios
from tests.interop.record_scenarios import PARTITIONS, RecordScenarios, places, spread


@pytest.fixture
def new_client(new_python_client: Callable[[str], ClientProcess]) -> Callable[[], ClientProcess]:
    """Returns a function that starts a process with confluent-kafka."""
    return lambda: new_python_client("confluent_kafka")


class TestConfluentRecords(RecordScenarios):
    """Scenarios of writing and reading records."""


class TestConfluentGroups(GroupScenarios):
    """Scenarios of consumer groups, and those that only librdkafka runs."""

    def test_cooperative_members_keep_what_they_keep(self, client: ClientProcess, topic: str, group: str) -> None:
        """With the cooperative assignor (KIP-429), a new member gets half of the partitions; the first member loses no
        other partition (I19)."""
        cooperative = {"partition_assignment_strategy": "cooperative-sticky", "heartbeat_interval_ms": "300"}
        first = client.join("first", group, topic, **cooperative)
        first.wait_until(lambda m: m.assignment == list(range(PARTITIONS)), "owns everything")
        second = client.join("second", group, topic, **cooperative)
        second.wait_until(lambda m: len(m.assignment or []) == 3, "gets half")
        first.wait_until(lambda m: len(m.assignment or []) == 3, "keeps half")
        revoked = [event["partitions"] for event in first.events if event["event"] == "revoked"]
        assert revoked == [second.assignment]
        client.call("produce", topic=topic, records=spread(5))
        client.wait_until(lambda: first.places | second.places == places(5), lambda: "records are missing")

    def test_a_static_member_that_comes_back_causes_no_rebalance(
        self, client: ClientProcess, start_client: Callable[[], ClientProcess], topic: str, group: str
    ) -> None:
        """A static member (KIP-345) that is killed and restarted gets its partitions back, without an event for other
        members."""
        static = {"session_timeout_ms": "60000", "heartbeat_interval_ms": "300"}
        other = start_client()
        stays = client.join("stays", group, topic, group_instance_id="stays", **static)
        returns = other.join("returns", group, topic, group_instance_id="returns", **static)
        stays.wait_until(lambda m: len(m.assignment or []) == 3, "owns half")
        returns.wait_until(lambda m: len(m.assignment or []) == 3, "owns half")
        before, owned = len(stays.events), returns.assignment
        other.kill()
        again = start_client().join("again", group, topic, group_instance_id="returns", **static)
        again.wait_until(lambda m: m.assignment is not None, "is back")
        client.call("produce", topic=topic, records=spread(5))
        client.wait_until(lambda: stays.places | again.places == places(5), lambda: "records are missing")
        assert again.assignment == owned
        assert {event["event"] for event in stays.events[before:]} == {"record"}

    def test_a_member_that_stops_polling_is_replaced(self, client: ClientProcess, topic: str, group: str) -> None:
        """A member that does not poll within max.poll.interval.ms loses its partitions, and joins again when it polls
        (KIP-62)."""
        settings = {"session_timeout_ms": "2000", "heartbeat_interval_ms": "300", "max_poll_interval_ms": "3000"}
        stuck = client.join("stuck", group, topic, **settings)
        stuck.wait_until(lambda m: m.assignment == list(range(PARTITIONS)), "owns everything")
        other = client.join("other", group, topic, **settings)
        other.wait_until(lambda m: len(m.assignment or []) == 3, "owns half")
        client.call("hold", name="stuck")
        other.wait_until(lambda m: m.assignment == list(range(PARTITIONS)), "takes over")
        client.call("release", name="stuck")
        stuck.wait_until(lambda m: "lost" in m.names() and len(m.assignment or []) == 3, "comes back")
