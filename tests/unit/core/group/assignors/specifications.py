"""Groups for the tests of assignors: made by hand, or by hypothesis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b

from hypothesis import strategies as st

from klamm.core.group.assignors.assignor import (
    Assignment,
    GroupSpec,
    MemberSpec,
    PartitionLoad,
    TopicSpec,
)
from klamm.protocol.types import PartitionIndex, TopicId

__all__ = [
    "group",
    "groups",
    "ids",
    "loads_of",
    "moved",
    "owners",
    "partitions",
    "topic_id",
    "with_targets",
    "without_members",
]


def topic_id(name: str) -> TopicId:
    """An id that goes with the name."""
    return TopicId(blake2b(name.encode(), digest_size=16).digest())


def ids(names: Sequence[str]) -> frozenset[TopicId]:
    """The ids of topics by their names."""
    return frozenset(map(topic_id, names))


def partitions(**topics: Sequence[int]) -> Assignment:
    """An assignment, by the names of topics."""
    return {topic_id(name): frozenset(map(PartitionIndex, indexes)) for name, indexes in topics.items()}


def group(topics: Mapping[str, int], members: Mapping[str, Sequence[str]]) -> GroupSpec:
    """A group without targets: partition counts of the topics, and subscriptions of the members by name."""
    return GroupSpec(
        {
            member_id: MemberSpec(instance_id=None, rack_id=None, topic_ids=ids(names), target={})
            for member_id, names in members.items()
        },
        {topic_id(name): TopicSpec(name, count) for name, count in topics.items()},
        len({frozenset(names) for names in members.values()}) <= 1,
    )


def with_targets(spec: GroupSpec, targets: Mapping[str, Assignment]) -> GroupSpec:
    """The group, with these as the present target; members that aren't named have none."""
    return spec._replace(
        members={
            member_id: member._replace(target=targets.get(member_id, {})) for member_id, member in spec.members.items()
        }
    )


def without_members(spec: GroupSpec, *member_ids: str) -> GroupSpec:
    """The group after some have left."""
    left = {member_id: member for member_id, member in spec.members.items() if member_id not in member_ids}
    return spec._replace(members=left, is_homogeneous=len({member.topic_ids for member in left.values()}) <= 1)


def owners(assigned: Mapping[str, Assignment]) -> dict[tuple[TopicId, PartitionIndex], str]:
    """Who has what; nothing may be there twice."""
    result: dict[tuple[TopicId, PartitionIndex], str] = {}
    for member_id, assignment in assigned.items():
        for topic, indexes in assignment.items():
            assert indexes, "a topic without partitions"
            for index in indexes:
                assert (topic, index) not in result, f"{topic.hex()}-{index} has two owners"
                result[topic, index] = member_id
    return result


def moved(
    before: Mapping[str, Assignment], after: Mapping[str, Assignment]
) -> dict[tuple[TopicId, PartitionIndex], tuple[str | None, str | None]]:
    """What has another owner, from whom to whom."""
    old, new = owners(before), owners(after)
    return {
        partition: (old.get(partition), new.get(partition))
        for partition in old.keys() | new.keys()
        if old.get(partition) != new.get(partition)
    }


def loads_of(
    name: str, rates: Sequence[float], lags: Sequence[int] = ()
) -> dict[tuple[TopicId, PartitionIndex], PartitionLoad]:
    """Figures for the partitions of a topic, from the first one on."""
    return {
        (topic_id(name), PartitionIndex(index)): PartitionLoad(rate, lags[index] if lags else 0)
        for index, rate in enumerate(rates)
    }


@st.composite
def groups(
    draw: st.DrawFn,
    *,
    max_members: int = 12,
    max_topics: int = 4,
    max_partitions: int = 12,
    is_homogeneous: bool | None = None,
    has_loads: bool = False,
) -> GroupSpec:
    """Groups without targets. Every member reads at least one topic."""
    topics = {
        f"topic-{index}": draw(st.integers(1, max_partitions)) for index in range(draw(st.integers(1, max_topics)))
    }
    names = list(topics)
    subscriptions = st.lists(st.sampled_from(names), min_size=1, unique=True)
    count = draw(st.integers(1, max_members))
    if is_homogeneous or (is_homogeneous is None and draw(st.booleans())):
        subscription = draw(subscriptions)
        members = {f"member-{index}": subscription for index in range(count)}
    else:
        members = {f"member-{index}": draw(subscriptions) for index in range(count)}
    spec = group(topics, members)
    if has_loads:
        rates = st.integers(0, 1000) | st.sampled_from([0, 0, 10, 10_000])
        figures = {
            partition: load
            for name, size in topics.items()
            for partition, load in loads_of(
                name, [draw(rates) for _ in range(size)], [draw(rates) for _ in range(size)]
            ).items()
        }
        spec = spec._replace(loads=figures)
    return spec
