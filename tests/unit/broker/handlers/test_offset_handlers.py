"""Tests OffsetCommit, OffsetFetch and OffsetDelete in every version that clients send."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.broker.handlers.group_broker import (
    AUDIT_ID,
    EVENTS_ID,
    UNKNOWN_ID,
    GroupBroker,
    travelled,
    versions_of,
)

from klamm.broker.handlers import offset_commit, offset_delete, offset_fetch
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import ZERO_UUID
from klamm.protocol.schema.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.schema.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from klamm.protocol.schema.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

GROUP = "orders"
UNKNOWN_PARTITION, UNKNOWN_TOPIC_ID = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID


def commit(broker: GroupBroker, version: int, *topics: tuple[str, bytes, list[int]], offset: int = 5) -> Any:
    """Sends OffsetCommit by name or id, as the version requires; each partition gets `offset` plus its index."""
    request = OffsetCommitRequest(
        group_id=GROUP,
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                topic_id=topic_id,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=offset + index)
                    for index in indexes
                ],
            )
            for name, topic_id, indexes in topics
        ],
    )
    return broker.ask(offset_commit, request, version)


def codes(response: Any) -> dict[tuple[str | bytes, int], ErrorCode]:
    """Returns the error codes by topic (its name, or its id if it has no name) and partition."""
    return {
        (topic.name or getattr(topic, "topic_id", b""), partition.partition_index): ErrorCode(partition.error_code)
        for topic in response.topics
        for partition in topic.partitions
    }


@pytest.mark.parametrize("version", versions_of(ApiKey.OFFSET_COMMIT))
def test_commit_in_every_version(version: int) -> None:
    """A commit uses topic names up to version 9 and topic ids since version 10; the stored commit always has the id."""
    broker = GroupBroker()
    response = commit(broker, version, ("events", EVENTS_ID, [0, 1]))
    events = EVENTS_ID if version >= 10 else "events"
    assert codes(response) == {(events, 0): ErrorCode.NONE, (events, 1): ErrorCode.NONE}
    shard = broker.world.shard(broker.world.coordinator.partition_for(GROUP))
    committed = shard.store.offsets_of(GROUP)["events"]
    assert [(each.offset, each.topic_id) for each in committed.values()] == [(5, EVENTS_ID), (6, EVENTS_ID)]


def test_commit_for_what_does_not_exist() -> None:
    """A commit for an unknown topic or partition is refused, other partitions are committed, and the answer has each
    topic once."""
    broker = GroupBroker()
    response = commit(
        broker, 9, ("events", ZERO_UUID, [0, 7, -1]), ("ghost", ZERO_UUID, [0]), ("audit", ZERO_UUID, [0])
    )
    assert codes(response) == {
        ("events", 7): UNKNOWN_PARTITION,
        ("events", -1): UNKNOWN_PARTITION,
        ("events", 0): ErrorCode.NONE,
        ("ghost", 0): UNKNOWN_PARTITION,
        ("audit", 0): ErrorCode.NONE,
    }
    assert sorted(topic.name for topic in response.topics) == ["audit", "events", "ghost"]


def test_commit_by_an_id_that_does_not_exist() -> None:
    """An unknown topic id gets UNKNOWN_TOPIC_ID, which makes the client refresh its metadata."""
    response = commit(GroupBroker(), 10, ("", UNKNOWN_ID, [0]), ("", AUDIT_ID, [0, 3]))
    assert codes(response) == {
        (UNKNOWN_ID, 0): UNKNOWN_TOPIC_ID,
        (AUDIT_ID, 3): UNKNOWN_PARTITION,
        (AUDIT_ID, 0): ErrorCode.NONE,
    }


def test_commit_of_nothing_that_exists_does_not_ask_the_coordinator() -> None:
    """A commit with unknown partitions only does not reach the coordinator and creates no group."""
    broker = GroupBroker()
    assert codes(commit(broker, 9, ("ghost", ZERO_UUID, [0]))) == {("ghost", 0): UNKNOWN_PARTITION}
    assert broker.world.shard(broker.world.coordinator.partition_for(GROUP)).classic_groups.store.groups == {}


def fetch(broker: GroupBroker, version: int, *topics: tuple[str, bytes, list[int]], everything: bool = False) -> Any:
    """Sends OffsetFetch for one group, and returns its answer from the place that the version uses."""
    if version >= 8:
        asked = [
            OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=indexes)
            for name, topic_id, indexes in topics
        ]
        group = OffsetFetchRequestGroup(group_id=GROUP, topics=None if everything else asked)
        (answer,) = broker.ask(offset_fetch, OffsetFetchRequest(groups=[group]), version).groups
        assert answer.group_id == GROUP
        return answer
    older = [OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name, _, indexes in topics]
    request = OffsetFetchRequest(group_id=GROUP, topics=None if everything else older)
    return broker.ask(offset_fetch, request, version)


def offsets(response: Any) -> dict[tuple[str | bytes, int], int]:
    """Returns the offsets by topic and partition."""
    return {
        (topic.name or topic.topic_id, partition.partition_index): partition.committed_offset
        for topic in response.topics
        for partition in topic.partitions
    }


@pytest.mark.parametrize("version", versions_of(ApiKey.OFFSET_FETCH))
def test_fetch_in_every_version(version: int) -> None:
    """A fetch has one group up to version 7, a list of groups since version 8, and topic ids since version 10."""
    broker = GroupBroker()
    commit(broker, 9, ("events", ZERO_UUID, [0]))
    response = fetch(broker, version, ("events", EVENTS_ID, [0, 1]), ("audit", AUDIT_ID, [0]))
    events, audit = (EVENTS_ID, AUDIT_ID) if version >= 10 else ("events", "audit")
    assert offsets(response) == {(events, 0): 5, (events, 1): -1, (audit, 0): -1}


@pytest.mark.parametrize("version", range(2, 11))
def test_fetch_of_everything(version: int) -> None:
    """A fetch of all offsets is possible since version 2; since version 10 a deleted topic, which has no id, is left
    out."""
    broker = GroupBroker()
    commit(broker, 9, ("events", ZERO_UUID, [0, 1]))
    broker.world.commit(3, group_id=GROUP, topic="gone")
    found = offsets(fetch(broker, version, everything=True))
    if version >= 10:
        assert found == {(EVENTS_ID, 0): 5, (EVENTS_ID, 1): 6}
    else:
        assert found == {("events", 0): 5, ("events", 1): 6, ("gone", 0): 3}


def test_fetch_by_an_id_that_does_not_exist() -> None:
    """An unknown topic id is an error at its partitions only."""
    broker = GroupBroker()
    commit(broker, 9, ("events", ZERO_UUID, [0]))
    response = fetch(broker, 10, ("", UNKNOWN_ID, [0]), ("", EVENTS_ID, [0]))
    assert offsets(response) == {(EVENTS_ID, 0): 5, (UNKNOWN_ID, 0): -1}
    assert codes(response)[UNKNOWN_ID, 0] == UNKNOWN_TOPIC_ID


def test_fetch_of_several_groups() -> None:
    """Each group of a fetch has its own result, for any coordinator partition."""
    broker = GroupBroker()
    names = [f"group-{index}" for index in range(6)]
    for index, name in enumerate(names):
        broker.world.commit(index, group_id=name)
    topics = [OffsetFetchRequestTopics(name="events", partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=name, topics=topics) for name in names])
    response = broker.ask(offset_fetch, request, 9)
    assert [group.group_id for group in response.groups] == names
    assert [group.topics[0].partitions[0].committed_offset for group in response.groups] == list(range(6))


@pytest.mark.parametrize("version", versions_of(ApiKey.OFFSET_FETCH))
def test_fetch_without_a_coordinator(version: int) -> None:
    """A fetch without a coordinator gets NOT_COORDINATOR; in version 1, only partitions can carry the error."""
    broker = GroupBroker()
    broker.world.coordinator.on_resignation(broker.world.coordinator.partition_for(GROUP))
    response = fetch(broker, version, ("events", EVENTS_ID, [0]))
    if version == 1:
        assert codes(response) == {("events", 0): ErrorCode.NOT_COORDINATOR}
    else:
        assert response.error_code == ErrorCode.NOT_COORDINATOR


def delete(broker: GroupBroker, *topics: tuple[str, list[int]]) -> Any:
    """Sends OffsetDelete."""
    request = OffsetDeleteRequest(
        group_id=GROUP,
        topics=[
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
            )
            for name, indexes in topics
        ],
    )
    return broker.ask(offset_delete, request, 0)


def test_delete_of_offsets() -> None:
    """Offsets of existing partitions are deleted and other partitions are refused; the answer has each topic once."""
    broker = GroupBroker()
    commit(broker, 9, ("events", ZERO_UUID, [0, 1]))
    response = delete(broker, ("events", [0, 5]), ("ghost", [0]))
    assert codes(response) == {
        ("events", 5): UNKNOWN_PARTITION,
        ("events", 0): ErrorCode.NONE,
        ("ghost", 0): UNKNOWN_PARTITION,
    }
    assert offsets(fetch(broker, 8, everything=True)) == {("events", 1): 6}


def test_delete_in_an_unknown_group() -> None:
    """A delete in an unknown group has the group's error and no topics."""
    response = delete(GroupBroker(), ("events", [0]), ("ghost", [0]))
    assert (response.error_code, response.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


def test_errors_travel_in_every_version() -> None:
    """An error before the coordinator gets an answer in every version, at each partition if no other field exists."""
    partition = OffsetCommitRequestPartition(partition_index=3)
    committing = OffsetCommitRequest(topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])])
    for version in versions_of(ApiKey.OFFSET_COMMIT):
        committed = offset_commit.error_response(committing, version, ErrorCode.REQUEST_TIMED_OUT)
        assert list(codes(travelled(committed, version)).values()) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    fetching = OffsetFetchRequest(
        group_id=GROUP,
        topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[3])],
        groups=[OffsetFetchRequestGroup(group_id=GROUP)],
    )
    for version in versions_of(ApiKey.OFFSET_FETCH):
        fetched = travelled(offset_fetch.error_response(fetching, version, ErrorCode.REQUEST_TIMED_OUT), version)
        found = {fetched.error_code, *codes(fetched).values(), *(group.error_code for group in fetched.groups)}
        assert found - {0} == {ErrorCode.NOT_COORDINATOR}
    deleted = offset_delete.error_response(OffsetDeleteRequest(), 0, ErrorCode.KAFKA_STORAGE_ERROR)
    assert travelled(deleted, 0).error_code == ErrorCode.NOT_COORDINATOR
