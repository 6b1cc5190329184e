"""Tests a query's process as a member of its group, without Spark: ownership, waiting, refusals and fencing."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError
from tests.support.spark_topics import Topic

from klamm.client.cluster import Cluster
from klamm.client.committed_offsets import GroupOffsets
from klamm.client.config import ClientConfig
from klamm.client.errors import RequestRefused
from klamm.client.group_description import ClassicDescription, GroupDescriptions
from klamm.client.group_membership import ClassicMember, GroupProtocol, Joined
from klamm.insight.group.group_picture import picture_of
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition
from klamm.spark.source.errors import QueryFenced
from klamm.spark.source.group.exclusive_assignor import ASSIGNOR, MemberData, assign, encode_member_data
from klamm.spark.source.group.group_member import QueryMember
from klamm.testing import Broker

_PATIENCE_S = 60.0
# Far longer than the patience: a takeover within the patience proves that the previous owner left the group.
_SESSION_MS = 600_000


class Members:
    """Queries of one group, and the coordinator's description of the group."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.group = f"group-{uuid.uuid4().hex[:8]}"
        self.partitions = frozenset(TopicPartition(topic.name, PartitionIndex(index)) for index in range(3))
        self.running: list[QueryMember] = []
        self.opened: list[GroupOffsets] = []

    def config(self, name: str) -> ClientConfig:
        return ClientConfig.from_mapping(
            {"bootstrap.servers": self.topic.bootstrap_servers, "client.id": f"spark-{name}"}
        )

    def start(self, name: str) -> QueryMember:
        member = QueryMember(
            self.config(name),
            self.group,
            MemberData(name, self.partitions),
            session_timeout_ms=_SESSION_MS,
            heartbeat_interval_ms=200,
        )
        self.running.append(member)
        member.start()
        return member

    def owner(self, name: str) -> QueryMember:
        member = self.start(name)
        assert member.await_ownership(_PATIENCE_S)
        return member

    def described(self) -> ClassicDescription:
        with closing(GroupDescriptions(Cluster(self.config("observer")), self.group)) as descriptions:
            described = descriptions.describe()
        assert isinstance(described, ClassicDescription)
        return described

    def offsets(self, member: QueryMember | None) -> GroupOffsets:
        return GroupOffsets(Cluster(self.config("committer")), self.group, member)

    def put_out(self, client_id: str) -> None:
        """Removes a member, as an administrator does, or as the coordinator does when a process is paused too long."""
        (member_id,) = (each.member_id for each in self.described().members if each.client_id == client_id)
        member = ClassicMember(self.config("admin"), self.group, GroupProtocol("consumer", "any", 10_000, 10_000))
        member.member_id = member_id
        member.leave("put out", 10_000)
        member.close()

    def settle(self, count: int) -> None:
        eventually(lambda: len(self.described().members) == count and self.described().group_state == "Stable")


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def is_over(owner: QueryMember) -> bool:
    """Returns False while the query owns the group; then raises the error that ends the query."""
    owner.ensure_owner()
    return False


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Returns what the query has logged; the broker in this process has logs of its own."""
    return [record.getMessage() for record in caplog.records if record.name.startswith("klamm.spark.")]


@pytest.fixture
def members(topic: Topic) -> Iterator[Members]:
    made = Members(topic)
    yield made
    for member in made.running:
        member.leave("the test is over")


def test_the_oldest_owns_everything_and_is_shown(members: Members) -> None:
    """The oldest member owns all partitions; tools show the owner with them, and a waiting member without any."""
    owner = members.owner("first")
    members.start("second")
    members.settle(2)

    picture = picture_of(members.described())
    assert picture.assignor == "klamm-exclusive"
    assert {member.client_id: len(member.assigned) for member in picture.members} == {
        "spark-first": 3,
        "spark-second": 0,
    }
    owner.ensure_owner()


def test_who_stands_by_takes_over_when_the_owner_leaves(members: Members) -> None:
    """When the owner leaves, the waiting members take over in the order in which they joined."""
    first = members.owner("first")
    second = members.start("second")
    members.settle(2)
    third = members.start("third")
    members.settle(3)

    first.leave("it is done")
    assert second.await_ownership(_PATIENCE_S)
    members.settle(2)
    second.leave("it is done")
    assert third.await_ownership(_PATIENCE_S)


def test_an_owner_that_is_put_out_is_fenced_and_told_by_whom(members: Members) -> None:
    """An owner that is removed from the group may not commit or plan, and the error names its successor."""
    zero = TopicPartition(members.topic.name, PartitionIndex(0))
    owner = members.owner("first")
    successor = members.start("second")
    members.settle(2)
    with closing(members.offsets(owner)) as commits:
        commits.commit({zero: Offset(1)})
        members.put_out("spark-first")
        assert successor.await_ownership(_PATIENCE_S)
        with pytest.raises(QueryFenced, match=r"spark-second at .* has taken over \(member spark-second-"):
            commits.commit({zero: Offset(2)})
    with pytest.raises(QueryFenced, match="no longer owns"):
        owner.ensure_owner()
    assert members.topic.committed(members.group)[0] == 1

    with closing(members.offsets(successor)) as commits:
        commits.commit({zero: Offset(3)})
    assert members.topic.committed(members.group)[0] == 3


def test_an_owner_that_nobody_follows_is_told_so(members: Members) -> None:
    """An owner that is removed without a successor ends with an error that says so.

    The owner does not join again by itself, because an administrator may have moved the group.
    """
    owner = members.owner("only")
    members.put_out("spark-only")

    with pytest.raises(QueryFenced, match="no other query has taken over"):
        eventually(lambda: is_over(owner))


def test_who_was_fenced_and_is_a_member_all_the_same_leaves(members: Members) -> None:
    """A query that an older member fenced leaves the group when it stops, so that the group does not wait for it."""
    owner = members.owner("first")
    protocol = GroupProtocol("consumer", ASSIGNOR, _SESSION_MS, _SESSION_MS)
    with closing(ClassicMember(members.config("elder"), members.group, protocol)) as elder:
        joined = elder.join(encode_member_data(MemberData("elder", members.partitions, since_generation=0)))
        assert isinstance(joined, Joined)
        assert isinstance(elder.sync(assign(joined.members) if joined.is_leader else {}), bytes)
        with pytest.raises(QueryFenced, match=r"spark-elder at .* has taken over"):
            eventually(lambda: is_over(owner))
        assert len(members.described().members) == 2

        owner.leave("it is done")
        eventually(lambda: [each.client_id for each in members.described().members] == ["spark-elder"])
        elder.leave("it is done", 10_000)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_ordinary_consumers_are_refused(members: Members, protocol: str) -> None:
    """A query's group refuses ordinary consumers of both group protocols, and the owner remains the owner."""
    owner = members.owner("first")
    refusals: list[KafkaError] = []
    consumer = Consumer(
        {
            "bootstrap.servers": members.topic.bootstrap_servers,
            "group.id": members.group,
            "group.protocol": protocol,
            "error_cb": refusals.append,
            "log_level": 0,
        }
    )
    consumer.subscribe([members.topic.name])
    try:
        deadline = time.monotonic() + _PATIENCE_S
        while not refusals:
            assert time.monotonic() < deadline
            message = consumer.poll(0.2)
            if message is not None:
                error = message.error()
                assert error is not None
                refusals.append(error)
        wanted = KafkaError.INCONSISTENT_GROUP_PROTOCOL if protocol == "classic" else KafkaError.GROUP_ID_NOT_FOUND
        assert refusals[0].code() in (wanted, KafkaError._FATAL), refusals
        assert consumer.assignment() == []
    finally:
        consumer.close()
    owner.ensure_owner()


def test_a_group_of_consumers_is_not_taken(members: Members) -> None:
    """A query refuses to join a group of ordinary consumers, and the error names `klamm.group.mode=member`."""
    consumer = Consumer(
        {
            "bootstrap.servers": members.topic.bootstrap_servers,
            "group.id": members.group,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([members.topic.name])
    deadline = time.monotonic() + _PATIENCE_S
    while not consumer.assignment():
        consumer.poll(0.1)
        assert time.monotonic() < deadline
    try:
        with pytest.raises(RequestRefused, match=r"members that are no queries with klamm\.group\.mode=member"):
            members.owner("first")
    finally:
        consumer.close()


def test_an_owner_outlives_rebalances(members: Members) -> None:
    """An owner remains the owner while other members join and leave; its commits succeed in every generation."""
    owner = members.owner("first")
    with closing(members.offsets(owner)) as commits:
        for turn in range(5):
            other = members.start(f"other-{turn}")
            commits.commit({TopicPartition(members.topic.name, PartitionIndex(0)): Offset(turn)})
            members.settle(2)
            commits.commit({TopicPartition(members.topic.name, PartitionIndex(1)): Offset(turn)})
            other.leave("it is done")
            owner.ensure_owner()

    assert members.topic.committed(members.group)[:2] == [4, 4]


def test_a_query_that_waits_for_its_broker_says_so_and_when_it_is_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A query that waits for its broker logs a warning at the start and at the end of the wait.

    Without these warnings a user would not know why the query reads nothing.
    """
    broker = Broker(tmp_path)
    with broker:
        config = ClientConfig.from_mapping({"bootstrap.servers": broker.bootstrap_servers})
    member = QueryMember(
        config, "delays", MemberData("app", frozenset()), session_timeout_ms=_SESSION_MS, heartbeat_interval_ms=200
    )
    member.start()
    try:
        eventually(lambda: member.await_ownership(0.01) or bool(warnings_of(caplog)))
        broker.start()
        assert member.await_ownership(_PATIENCE_S)
        member.leave("the test is over")
    finally:
        broker.stop()

    warnings = warnings_of(caplog)
    assert "can't be had, and is asked again and again: no connection to the broker at 127.0.0.1" in warnings[0]
    assert re.fullmatch(r"the coordinator of group 'delays' is there again, after \d+\.\d s", warnings[-1])
