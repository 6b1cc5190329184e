"""Tests that clients of the consumer protocol (KIP-848) must pass with klamm, in addition to the scenarios of all
groups.

A suite inherits these tests and defines the fixture `new_client`. The session timeout is a config of the group.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from tests.interop.broker_process import BrokerProcess
from tests.interop.client_process import ClientProcess, Member
from tests.interop.group_scenarios import SESSION_MS, GroupScenarios, StartClient
from tests.interop.owner_watch import OwnerWatch, describe_consumer_group
from tests.interop.record_scenarios import PARTITIONS, places, spread
from tests.support.group_configs import set_group_config
from tests.support.wire import Wire

__all__ = ["ConsumerProtocolScenarios"]


def grow(bootstrap: str, topic: str, partitions: int) -> None:
    """Adds partitions to a topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)


def values(*members: Member) -> set[str]:
    """Returns the values of all records that at least one of the members has read."""
    return {record["value"] for member in members for record in member.records}


class ConsumerProtocolScenarios(GroupScenarios):
    """The scenarios of all groups and of this protocol. The coordinator must never show a partition with two owners."""

    joining: ClassVar[dict[str, str]] = {"group_protocol": "consumer"}
    session: ClassVar[dict[str, str]] = {}
    classic: ClassVar[dict[str, str]]
    """Settings of a classic member that can share a group with members of the consumer protocol."""

    @pytest.fixture
    def group(self, bootstrap: str) -> Iterator[str]:
        """The name of a new group, which is watched for partitions with two owners."""
        name = f"group-{uuid.uuid4().hex[:12]}"
        with OwnerWatch(bootstrap, name) as watch:
            yield name
        assert watch.looks, "nobody looked"
        assert not watch.overlaps, watch.overlaps[:5]

    @pytest.fixture
    def short_sessions(self, bootstrap: str, group: str) -> None:
        """Gives the group a short session timeout, which is a config of the group."""
        set_group_config(bootstrap, group, consumer_session_timeout_ms=SESSION_MS)

    def test_the_group_is_of_the_consumer_protocol(
        self, client: ClientProcess, bootstrap: str, topic: str, group: str
    ) -> None:
        """ConsumerGroupDescribe shows the client id, host, type, subscription and assignment of a member."""
        member = client.join("reader", group, topic, **self.joining)
        member.wait_until(lambda m: m.assignment == list(range(PARTITIONS)), "owns everything")
        with Wire(bootstrap) as wire:
            described = describe_consumer_group(wire, group)
        (told,) = described.members
        assert (told.client_id, told.client_host, told.member_type) == ("reader", "/127.0.0.1", 1)
        assert told.subscribed_topic_names == [topic]
        assert [sorted(each.partitions) for each in told.assignment.topic_partitions] == [list(range(PARTITIONS))]

    @pytest.mark.parametrize("assignor", ["uniform", "range"])
    def test_members_choose_the_assignor(
        self, client: ClientProcess, bootstrap: str, topic: str, group: str, assignor: str
    ) -> None:
        """The coordinator uses the assignor of the members' setting group.remote.assignor."""
        settings = self.joining | {"group_remote_assignor": assignor}
        first = client.join("first", group, topic, **settings)
        second = client.join("second", group, topic, **settings)
        for member in (first, second):
            member.wait_until(lambda m: len(m.assignment or []) == 3, "owns half")
        with Wire(bootstrap) as wire:
            assert describe_consumer_group(wire, group).assignor_name == assignor

    def test_who_keeps_its_partitions_is_not_interrupted(self, client: ClientProcess, topic: str, group: str) -> None:
        """When a member joins, the other members give up only the partitions that the new member gets (I19)."""
        first = client.join("first", group, topic, **self.joining)
        first.wait_until(lambda m: m.assignment == list(range(PARTITIONS)), "owns everything")
        second = client.join("second", group, topic, **self.joining)
        second.wait_until(lambda m: len(m.assignment or []) == 3, "gets half")
        revoked = [event["partitions"] for event in first.events if event["event"] == "revoked" and event["partitions"]]
        assert revoked == [second.assignment]
        third = client.join("third", group, topic, **self.joining)
        third.wait_until(lambda m: len(m.assignment or []) == 2, "gets a third")
        client.call("produce", topic=topic, records=spread(5))
        client.wait_until(
            lambda: first.places | second.places | third.places == places(5), lambda: "records are missing"
        )

    def test_a_topic_that_grows_while_it_is_read(
        self, client: ClientProcess, bootstrap: str, topic: str, group: str
    ) -> None:
        """The coordinator assigns the new partitions of a topic, and the members read all records in them."""
        members = [client.join(f"member-{n}", group, topic, **self.joining) for n in range(2)]
        for member in members:
            member.wait_until(lambda m: len(m.assignment or []) == 3, "owns half")
        grow(bootstrap, topic, 12)
        for member in members:
            member.wait_until(lambda m: len(m.assignment or []) == 6, "owns half of twelve")
        records = [{"partition": partition, "value": f"{partition}"} for partition in range(12)]
        client.call("produce", topic=topic, records=records)
        client.wait_until(
            lambda: values(*members) == {record["value"] for record in records}, lambda: "records are missing"
        )

    def test_a_regular_expression_is_matched_by_the_broker(
        self, client: ClientProcess, bootstrap: str, group: str
    ) -> None:
        """A member with a regular expression reads matching topics, also those created later, and no other topics."""
        prefix = f"regex-{uuid.uuid4().hex[:12]}"
        admin = AdminClient({"bootstrap.servers": bootstrap})

        def create(name: str) -> None:
            admin.create_topics([NewTopic(name, 2, 1)])[name].result(30)
            client.call("produce", topic=name, records=[{"partition": 1, "value": name}])

        create(f"{prefix}-apple")
        create(f"{prefix}-pear")
        member = client.join("reader", group, f"^{prefix}-a.*", **self.joining)
        member.wait_until(lambda m: m.assignment == [0, 1], "owns the one that matches")
        create(f"{prefix}-apricot")
        member.wait_until(lambda m: m.assignment == [0, 0, 1, 1], "owns the one that came")
        member.wait_until(lambda m: len(m.records) == 2, "reads both")
        assert values(member) == {f"{prefix}-apple", f"{prefix}-apricot"}

    def test_a_static_member_that_leaves_for_a_while_keeps_its_place(
        self, client: ClientProcess, start_client: StartClient, bootstrap: str, topic: str, group: str
    ) -> None:
        """A member with an instance id that closes and returns within the session timeout gets its partitions back,
        without a rebalance for the other members (KIP-345)."""
        stays = client.join("stays", group, topic, group_instance_id="stays", **self.joining)
        returns = client.join("returns", group, topic, group_instance_id="returns", **self.joining)
        for member in (stays, returns):
            member.wait_until(lambda m: len(m.assignment or []) == 3, "owns half")
        before, owned = len(stays.events), returns.assignment
        with Wire(bootstrap) as wire:
            epoch = describe_consumer_group(wire, group).group_epoch
        returns.leave()
        again = client.join("again", group, topic, group_instance_id="returns", **self.joining)
        again.wait_until(lambda m: m.assignment is not None and len(m.assignment) == 3, "is back")
        client.call("produce", topic=topic, records=spread(5))
        client.wait_until(lambda: stays.places | again.places == places(5), lambda: "records are missing")
        assert again.assignment == owned
        assert {event["event"] for event in stays.events[before:]} == {"record"}
        with Wire(bootstrap) as wire:
            assert describe_consumer_group(wire, group).group_epoch == epoch

    def test_members_of_both_protocols_share_a_group_while_it_is_upgraded(
        self, client: ClientProcess, topic: str, group: str
    ) -> None:
        """When members of a classic group are replaced one by one by members of this protocol, and back, the group
        reads each record exactly once."""
        seen: list[Member] = []

        def join(name: str, settings: dict[str, str]) -> Member:
            seen.append(client.join(name, group, topic, **settings))
            return seen[-1]

        def read(rounds: int, *present: Member) -> None:
            for member in present:
                member.wait_until(lambda m: len(m.assignment or []) == PARTITIONS // len(present), "has its share")
            client.call("produce", topic=topic, records=spread(5))
            client.wait_until(
                lambda: {place for member in seen for place in member.places} == places(5 * rounds),
                lambda: "records are missing",
            )

        old = [join(f"old-{number}", self.classic) for number in range(2)]
        read(1, *old)
        old[0].leave()
        new = [join("new-0", self.joining)]
        read(2, old[1], new[0])
        old[1].leave()
        new.append(join("new-1", self.joining))
        read(3, *new)
        new[0].leave()
        back = [join("back-0", self.classic)]
        read(4, new[1], back[0])
        new[1].leave()
        back.append(join("back-1", self.classic))
        read(5, *back)
        assert sum(len(member.records) for member in seen) == 5 * 5 * PARTITIONS

    def test_a_group_goes_on_after_the_broker_was_killed(
        self, client: ClientProcess, restartable_broker: BrokerProcess, topic: str, group: str
    ) -> None:
        """Members keep their partitions and continue to read after the broker is killed with SIGKILL and restarted."""
        members = [client.join(f"member-{n}", group, topic, **self.joining) for n in range(2)]
        for member in members:
            member.wait_until(lambda m: len(m.assignment or []) == 3, "owns half")
        client.call("produce", topic=topic, records=spread(5))
        client.wait_until(lambda: set().union(*(m.places for m in members)) == places(5), lambda: "records are missing")
        restartable_broker.kill()
        restartable_broker.start()
        client.call("produce", topic=topic, records=spread(5))
        client.wait_until(
            lambda: set().union(*(m.places for m in members)) == places(10), lambda: "records are missing"
        )
        joining: Callable[[Member], Any] = lambda m: len(m.assignment or []) == 3  # noqa: E731
        for member in members:
            member.wait_until(joining, "owns half still")
