"""Tests that the assignors `uniform` and `range` return Apache Kafka's assignments, in the same order.

Kafka's side runs from its jars: a consumer group as the coordinator keeps it, the builder of target assignments, and
the replay of its records (java/GroupAssignments.java).
"""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from typing import Any

import pytest
from tests.interop.client_process import ClientProcess
from tests.interop.java_client import driver_command

from klamm.core.group.assignors.assignment_copy import partitions_in_java_order, topics_in_java_order
from klamm.core.group.assignors.assignor import Assignment, GroupSpec, MemberSpec, TopicSpec
from klamm.core.group.assignors.built_in import BUILT_IN
from klamm.core.group.assignors.java_hash_order import timeline_order
from klamm.core.group.assignors.partition_order import in_order, ordered
from klamm.protocol.types import PartitionIndex, TopicId

pytestmark = pytest.mark.java

_FULL_TABLES = (12, 24, 48)
"""Sizes of groups at which Kafka may insert the successor of a static member into its map of members before it removes
the predecessor. The map then grows, and the specification of a group does not show that."""


class _GroupMember:
    def __init__(self, instance_id: str | None, subscription: tuple[str, ...]) -> None:
        self.instance_id = instance_id
        self.subscription = subscription


class Group:
    """A group in klamm and in Kafka. Each change is made on both sides, and the target assignments are compared."""

    def __init__(self, kafka: ClientProcess, seed: int) -> None:
        self.kafka = kafka
        self.random = random.Random(seed)
        self.topics: dict[str, tuple[TopicId, int]] = {}
        self.members: dict[str, _GroupMember] = {}
        self.targets: dict[str, Assignment] = {}
        self.largest_size = 0
        self.story: list[str] = []
        kafka.call("start")

    def create_topic(self, name: str, partition_count: int) -> None:
        """Creates a topic with a new id, or replaces the topic of that name."""
        self.topics[name] = (TopicId(self.random.randbytes(16)), partition_count)

    def leave(self, member_id: str) -> None:
        """Removes the member; the next heartbeat computes a target assignment."""
        del self.members[member_id]
        self.targets.pop(member_id, None)
        self.kafka.call("leave", id=member_id)
        self.story.append(f"leave {member_id}")

    def heartbeat(
        self, member_id: str, subscription: tuple[str, ...], instance_id: str | None = None, assignor: str = "uniform"
    ) -> None:
        """Makes a member join, change its subscription or replace a static member, and compares the new target
        assignments."""
        self.story.append(f"{assignor} {member_id} {instance_id} {subscription} {self.topics}")
        replaced = next(
            (other for other, each in self.members.items() if instance_id and each.instance_id == instance_id),
            member_id,
        )
        answer = self.kafka.call(
            "heartbeat",
            id=member_id,
            instance=instance_id,
            subscription=subscription,
            assignor=assignor,
            topics={name: [_text(topic_id), count] for name, (topic_id, count) in self.topics.items()},
        )
        order = timeline_order(self.members, self.largest_size)
        members = {each: self.members[each] for each in order if each == member_id or each != replaced}
        members[member_id] = _GroupMember(instance_id, subscription)
        targets = self.targets | {member_id: self.targets.get(replaced, {})}
        assigned = BUILT_IN[assignor].assign(self._specification(members, targets))
        ours = {
            each: [[_text(topic_id), list(in_order(target))] for topic_id, target in assigned[each].items()]
            for each in members
            if each not in self.targets or assigned[each] != self.targets[each]
        }
        if replaced != member_id and assigned[member_id] is targets[member_id]:
            # Kafka also writes a record of this unchanged target, in the order of the Java collections of the target.
            ours[member_id] = [
                [_text(topic_id), list(partitions_in_java_order(assigned[member_id][topic_id]))]
                for topic_id in topics_in_java_order(assigned[member_id])
            ]
        kafkas = answer["targets"]
        if assignor == "range" and any(
            name not in self.topics for each in members.values() for name in each.subscription
        ):
            # Kafka's range assignor collects topics in a map whose size also counts topics that don't exist.
            ours, kafkas = ({each: sorted(topics) for each, topics in side.items()} for side in (ours, kafkas))
        assert ours == kafkas, "\n".join(self.story)
        self._replay(member_id, replaced, members[member_id], answer["targets"])

    def _specification(self, members: dict[str, _GroupMember], targets: dict[str, Assignment]) -> GroupSpec:
        return GroupSpec(
            {
                member_id: MemberSpec(
                    member.instance_id,
                    None,
                    frozenset(self.topics[name][0] for name in member.subscription if name in self.topics),
                    targets.get(member_id, {}),
                )
                for member_id, member in members.items()
            },
            {topic_id: TopicSpec(name, count) for name, (topic_id, count) in self.topics.items()},
            len({frozenset(member.subscription) for member in members.values()}) == 1,
        )

    def _replay(self, member_id: str, replaced: str, member: _GroupMember, records: dict[str, Any]) -> None:
        if replaced != member_id:
            del self.members[replaced], self.targets[replaced]
        self.members[member_id] = member
        self.largest_size = max(self.largest_size, len(self.members))
        for each, topics in records.items():
            self.targets[each] = {
                _topic_id(text): ordered([PartitionIndex(partition) for partition in partitions])
                for text, partitions in topics
            }


def _text(topic_id: TopicId) -> str:
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def _topic_id(text: str) -> TopicId:
    return TopicId(base64.urlsafe_b64decode(text + "=="))


@pytest.fixture(scope="module")
def kafka(java_client_classpath: str) -> Iterator[ClientProcess]:
    """A JVM process with Apache Kafka's group and assignors."""
    client = ClientProcess(driver_command(java_client_classpath, "GroupAssignments"))
    yield client
    client.close()


def _live(group: Group, assignor: str, *, steps: int, member_limit: int, partition_limit: int, is_mixed: bool) -> None:
    """Runs a random life of the group: dynamic and static members join and leave; topics appear, grow and are
    replaced."""
    choose = group.random
    names = [f"topic-{choose.randrange(1000)}" for _ in range(choose.randint(1, 5))]
    for name in names:
        group.create_topic(name, choose.randint(1, partition_limit))
    for _ in range(steps):
        what = choose.random()
        name = choose.choice(names)
        if what < 0.08 and name in group.topics:
            topic_id, count = group.topics[name]
            group.topics[name] = (topic_id, count + choose.randint(1, 10))
        elif what < 0.1:
            group.create_topic(name, choose.randint(1, partition_limit))
        elif what < 0.13:
            group.topics.pop(name, None)
        # Sorted, like the names that the Java client sends. Kafka sorts the names of all members except those of the
        # member that sends the heartbeat.
        wanted = tuple(sorted(choose.sample(names, choose.randint(1, len(names))) if is_mixed else names))
        _change_membership(group, assignor, wanted, member_limit, is_mixed=is_mixed)


def _change_membership(
    group: Group, assignor: str, subscription: tuple[str, ...], member_limit: int, *, is_mixed: bool
) -> None:
    choose = group.random
    present = list(group.members)
    what = choose.random()
    if present and (what < 0.3 or len(present) >= member_limit):
        for member_id in choose.sample(present, choose.randint(1, max(1, len(present) // 3))):
            group.leave(member_id)
        present = list(group.members)
    statics = [member_id for member_id in present if group.members[member_id].instance_id]
    if present and what < 0.45:
        member_id = choose.choice(present)
        member = group.members[member_id]
        again = subscription if is_mixed else member.subscription
        group.heartbeat(member_id, again, member.instance_id, assignor)
    elif statics and what < 0.55 and len(present) not in _FULL_TABLES:
        instance_id = group.members[choose.choice(statics)].instance_id
        group.heartbeat(_member_id(choose), subscription, instance_id, assignor)
    else:
        instances = {member.instance_id for member in group.members.values()}
        instance_id = f"instance-{choose.randrange(100)}"
        is_static = choose.random() < 0.25 and instance_id not in instances
        group.heartbeat(_member_id(choose), subscription, instance_id if is_static else None, assignor)


def _member_id(choose: random.Random) -> str:
    if choose.random() < 0.2:
        return f"consumer-{choose.choice('äöüß鍵🗝')}-{choose.randrange(10**6)}"
    return base64.urlsafe_b64encode(choose.randbytes(16)).decode().rstrip("=")


@pytest.mark.parametrize("assignor", ["uniform", "range"])
@pytest.mark.parametrize("is_mixed", [False, True], ids=["homogeneous", "heterogeneous"])
def test_small_groups(kafka: ClientProcess, assignor: str, is_mixed: bool) -> None:
    """Some thousand target assignments of small groups equal Kafka's; each starts from the previous one."""
    for seed in range(150):
        group = Group(kafka, seed)
        _live(group, assignor, steps=20, member_limit=8, partition_limit=40, is_mixed=is_mixed)


@pytest.mark.parametrize("is_mixed", [False, True], ids=["homogeneous", "heterogeneous"])
def test_large_groups(kafka: ClientProcess, is_mixed: bool) -> None:
    """Target assignments equal Kafka's in groups whose hash tables have grown, with topics of hundreds of
    partitions."""
    for seed in range(20):
        group = Group(kafka, seed)
        _live(group, "uniform", steps=60, member_limit=80, partition_limit=300, is_mixed=is_mixed)


def test_changing_assignors(kafka: ClientProcess) -> None:
    """Target assignments equal Kafka's when a group changes its assignor."""
    for seed in range(60):
        group = Group(kafka, seed)
        for _ in range(6):
            assignor = group.random.choice(["uniform", "range"])
            _live(group, assignor, steps=4, member_limit=20, partition_limit=60, is_mixed=group.random.random() < 0.5)
