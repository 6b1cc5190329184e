"""Tests that Apache Kafka's Java producer and consumer work with klamm as with Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.interop.client_process import ClientError, ClientProcess
from tests.interop.group_scenarios import GroupScenarios
from tests.interop.java_client import JavaClient
from tests.interop.record_scenarios import RecordScenarios

pytestmark = [pytest.mark.java, pytest.mark.timeout(180)]


@pytest.fixture
def new_client(java_client_classpath: str, bootstrap: str) -> Callable[[], ClientProcess]:
    """Returns a function that starts a JVM process with the Java clients."""
    return lambda: JavaClient(java_client_classpath, bootstrap)


class TestJavaRecords(RecordScenarios):
    """Scenarios of writing and reading records, and of records that are too large."""

    def test_a_record_that_is_too_large_is_refused(self, java: JavaClient, topic: str) -> None:
        """A batch beyond max.message.bytes fails with Kafka's exception; the broker accepts the next, small record."""
        java.call("set topic config", topic=topic, operation="SET", key="max.message.bytes", value="1000")
        with pytest.raises(ClientError, match="RecordTooLargeException"):
            java.call("produce", topic=topic, records=[{"partition": 0, "value": "x" * 5_000}])
        java.call("produce", topic=topic, records=[{"partition": 0, "value": "x"}])
        assert [record["value"] for record in java.call("read", topic=topic, **{"from": "earliest"})] == ["x"]


class TestJavaGroups(GroupScenarios):
    """Scenarios of consumer groups, and of a topic that grows."""

    def test_a_topic_that_grows_is_shared_anew(self, java: JavaClient, topic: str, group: str) -> None:
        """A member gets partitions that are added while it reads, and reads them from their start."""
        member = java.join("reader", group, topic, metadata_max_age_ms="500")
        member.wait_until(lambda m: m.assignment == list(range(6)), "owns six")
        java.call("add partitions", topic=topic, count=8)
        java.call("produce", topic=topic, records=[{"partition": 7, "value": "new"}])
        member.wait_until(lambda m: m.assignment == list(range(8)), "owns eight")
        member.wait_until(lambda m: (7, 0) in m.places, "reads the new partition")
