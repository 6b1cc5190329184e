"""Tests of consumer groups that every client must pass with klamm, with members that are killed, paused or restarted.

A suite inherits these tests and defines the fixture `new_client`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from tests.interop.broker_process import BrokerProcess
from tests.interop.client_process import ClientProcess
from tests.interop.record_scenarios import PARTITIONS, places, spread

__all__ = ["SESSION_MS", "GroupScenarios", "committed_offsets"]

StartClient = Callable[[], ClientProcess]

SESSION_MS = "6000"
"""For tests that wait for the end of a session. A member that gets no processor for some seconds must not lose it."""
SESSION = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": "300"}


def committed_offsets(bootstrap: str, group: str) -> set[int]:
    """Returns the committed offsets of a group, as a different client than the one under test reads them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    answer = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(30)
    return {place.offset for place in answer.topic_partitions or []}


class GroupScenarios:
    """Scenarios of consumer groups: records, assignments, takeovers and committed offsets."""

    joining: ClassVar[dict[str, str]] = {}
    """Settings that the members of this client need."""
    session: ClassVar[dict[str, str]] = SESSION
    """Settings of members with a short session timeout."""

    @pytest.fixture
    def short_sessions(self) -> None:
        """Shortens the sessions of a group whose members can't set them."""

    def test_a_member_rewinds_and_replays(self, client: ClientProcess, topic: str, group: str) -> None:
        """A member that seeks to the beginning reads all its records again, in the same order."""
        client.call("produce", topic=topic, records=spread(5))
        member = client.join("reader", group, topic, **self.joining)
        member.wait_until(lambda m: len(m.records) == 30, "reads everything")
        member.rewind()
        member.wait_until(lambda m: len(m.records) == 60, "reads everything again")
        for partition in range(PARTITIONS):
            offsets = [record["offset"] for record in member.records if record["partition"] == partition]
            assert offsets == [*range(5), *range(5)]

    def test_two_groups_see_everything(self, client: ClientProcess, topic: str, group: str) -> None:
        """Each of two groups reads all records once."""
        readers = [client.join(f"reader-{number}", f"{group}-{number}", topic, **self.joining) for number in range(2)]
        client.call("produce", topic=topic, records=spread(20))
        for reader in readers:
            reader.wait_until(lambda m: len(m.records) == 120, "reads everything")
            assert reader.places == places(20)

    def test_two_members_split_a_topic(self, client: ClientProcess, topic: str, group: str) -> None:
        """Two members of a group each own half of the partitions, and each record reaches one of the two members."""
        first = client.join("first", group, topic, **self.joining)
        second = client.join("second", group, topic, **self.joining)
        first.wait_until(lambda m: len(m.assignment or []) == 3, "owns half")
        second.wait_until(lambda m: len(m.assignment or []) == 3, "owns half")
        assert sorted([*(first.assignment or []), *(second.assignment or [])]) == list(range(PARTITIONS))
        client.call("produce", topic=topic, records=spread(20))
        client.wait_until(lambda: len(first.records) + len(second.records) == 120, lambda: "not everything arrived")
        assert first.places | second.places == places(20)
        assert not first.places & second.places

    def test_members_that_leave_hand_over_where_they_stopped(
        self, client: ClientProcess, topic: str, group: str
    ) -> None:
        """A new member does not read the records again that its predecessor read and committed before it left."""
        client.call("produce", topic=topic, records=spread(5))
        first = client.join("first", group, topic, **self.joining)
        first.wait_until(lambda m: len(m.records) == 30, "reads everything")
        first.leave()
        client.call("produce", topic=topic, records=spread(5))
        second = client.join("second", group, topic, **self.joining)
        second.wait_until(lambda m: len(m.records) >= 30, "reads the rest")
        assert second.places == places(10) - first.places

    @pytest.mark.usefixtures("short_sessions")
    def test_partitions_of_a_killed_member_are_taken_over(
        self, client: ClientProcess, start_client: StartClient, topic: str, group: str
    ) -> None:
        """A member that is killed loses its partitions after its session timeout, and the group loses no record."""
        other = start_client()
        survivor = client.join("survivor", group, topic, **self.session, **self.joining)
        victim = other.join("victim", group, topic, **self.session, **self.joining)
        survivor.wait_until(lambda m: len(m.assignment or []) == 3, "owns half")
        victim.wait_until(lambda m: len(m.assignment or []) == 3, "owns half")
        client.call("produce", topic=topic, records=spread(10))
        victim.wait_until(lambda m: len(m.records) >= 30, "reads its half")
        other.kill()
        client.call("produce", topic=topic, records=spread(10))
        survivor.wait_until(lambda m: m.assignment == list(range(PARTITIONS)), "takes over")
        client.wait_until(lambda: survivor.places | victim.places == places(20), lambda: "records were lost")

    @pytest.mark.usefixtures("short_sessions")
    def test_a_paused_member_is_fenced(
        self, client: ClientProcess, start_client: StartClient, bootstrap: str, topic: str, group: str
    ) -> None:
        """A member that is paused past its session timeout can't overwrite its successor's commit; it joins the group
        again."""
        other = start_client()
        settings = self.session | self.joining | {"enable_auto_commit": "false"}
        paused = other.join("paused", group, topic, **settings)
        paused.wait_until(lambda m: m.assignment == list(range(PARTITIONS)), "owns everything")
        client.call("produce", topic=topic, records=spread(10))
        paused.wait_until(lambda m: len(m.records) == 60, "reads everything")
        other.pause()
        successor = client.join("successor", group, topic, **settings)
        successor.wait_until(lambda m: len(m.records) == 60, "reads everything again, as nothing was committed")
        client.call("produce", topic=topic, records=spread(10))
        successor.wait_until(lambda m: len(m.records) == 120, "reads on")
        successor.commit()
        successor.wait_until(lambda m: "committed" in m.names(), "commits")
        before = len(paused.events)
        other.go_on()
        paused.commit()
        paused.wait_until(lambda m: len(m.assignment or []) == 3 and len(m.events) > before, "joins again")
        successor.wait_until(lambda m: len(m.assignment or []) == 3, "shares again")
        paused.wait_until(lambda m: {"refused", "committed"} & {*m.names()} != set(), "is told how its commit went")
        # The paused member's position was 10. If the broker had accepted its commit, the committed offset would be 10.
        assert committed_offsets(bootstrap, group) == {20}

    @pytest.mark.usefixtures("short_sessions")
    def test_the_seventh_member_idles_and_takes_over(
        self, client: ClientProcess, start_client: StartClient, topic: str, group: str
    ) -> None:
        """One of seven members on six partitions owns no partition until another member is killed."""
        other = start_client()
        settings = self.session | self.joining
        # The member that the test kills must own a partition, so it joins first. Some assignors sort by member ids,
        # which begin with the members' names; others leave assigned partitions with their owners.
        victim = other.join("member-0", group, topic, **settings)
        victim.wait_until(lambda m: bool(m.assignment), "has something")
        members = [client.join(f"member-{number}", group, topic, **settings) for number in range(1, PARTITIONS + 1)]

        def sizes() -> list[int]:
            return sorted(len(member.assignment or []) for member in members)

        def story() -> str:
            return f"{victim.assignment} {[member.assignment for member in members]}"

        client.wait_until(lambda: sizes() == [0, *[1] * (PARTITIONS - 1)] and len(victim.assignment or []) == 1, story)
        idle = next(member for member in members if not member.assignment)
        other.kill()
        idle.wait_until(lambda m: len(m.assignment or []) == 1, "takes over")
        client.wait_until(lambda: sizes() == [1] * PARTITIONS, story)
        client.call("produce", topic=topic, records=spread(3))
        client.wait_until(
            lambda: {place for member in members for place in member.places} == places(3),
            lambda: "records are missing",
        )

    def test_a_group_resumes_after_a_restart_of_the_broker(
        self, client: ClientProcess, restartable_broker: BrokerProcess, topic: str, group: str
    ) -> None:
        """Committed offsets survive a restart of the broker: the group continues with the first uncommitted record."""
        client.call("produce", topic=topic, records=spread(10))
        first = client.join("first", group, topic, **self.joining)
        first.wait_until(lambda m: len(m.records) == 60, "reads everything")
        first.leave()
        restartable_broker.restart()
        client.call("produce", topic=topic, records=spread(5))
        second = client.join("second", group, topic, **self.joining)
        second.wait_until(lambda m: len(m.records) >= 30, "reads the rest")
        assert second.places == places(15) - places(10)

    def test_members_live_through_a_restart_of_the_broker(
        self, client: ClientProcess, restartable_broker: BrokerProcess, topic: str, group: str
    ) -> None:
        """A member continues after a restart of the broker, and misses no record."""
        member = client.join("reader", group, topic, **self.joining)
        member.wait_until(lambda m: m.assignment == list(range(PARTITIONS)), "owns everything")
        client.call("produce", topic=topic, records=spread(5))
        member.wait_until(lambda m: len(m.records) == 30, "reads the first part")
        restartable_broker.restart()
        client.call("produce", topic=topic, records=spread(5))
        member.wait_until(lambda m: m.places == places(10), "reads the second part")

    def test_acknowledged_records_outlive_a_kill_of_the_broker(
        self, client: ClientProcess, restartable_broker: BrokerProcess, topic: str
    ) -> None:
        """Acknowledged records survive SIGKILL of the broker, and the broker never assigns an offset twice."""
        before = client.call("produce", topic=topic, records=spread(20))
        restartable_broker.kill()
        restartable_broker.start()
        after = client.call("produce", topic=topic, records=spread(20))
        written = [(partition, offset) for partition, offset, _ in [*before, *after]]
        assert len(set(written)) == 240
        arrived = client.call("read", topic=topic, **{"from": "earliest"})
        assert sorted((record["partition"], record["offset"]) for record in arrived) == sorted(written)
