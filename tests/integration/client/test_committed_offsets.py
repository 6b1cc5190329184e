"""Offsets are committed for a group without members through its coordinator, also after the coordinator has moved."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.scripted_broker import ScriptedBroker

from klamm.client.cluster import Cluster
from klamm.client.committed_offsets import GroupOffsets
from klamm.client.errors import GaveUp, RequestRefused
from klamm.client.group_membership import MemberEpoch
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import Coordinator, FindCoordinatorResponse
from klamm.protocol.schema.offset_commit_request import OffsetCommitRequest
from klamm.protocol.schema.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from klamm.protocol.schema.offset_fetch_request import OffsetFetchRequest
from klamm.protocol.schema.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition

ZERO = TopicPartition("t", PartitionIndex(0))
ONE = TopicPartition("t", PartitionIndex(1))


def committed(code: int = 0) -> Callable[[OffsetCommitRequest], OffsetCommitResponse]:
    return lambda request: OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=one.partition_index, error_code=code)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def test_a_commit_is_that_of_no_member(broker: ScriptedBroker, cluster: Cluster) -> None:
    """A commit without a member has generation -1 and an empty member id."""
    requests: list[OffsetCommitRequest] = []

    def remember(request: OffsetCommitRequest) -> OffsetCommitResponse:
        requests.append(request)
        return committed()(request)

    broker.on(OffsetCommitRequest, remember)

    GroupOffsets(cluster, "g").commit({ZERO: Offset(5), ONE: Offset(7)})

    (request,) = requests
    assert (request.group_id, request.generation_id_or_member_epoch, request.member_id) == ("g", -1, "")
    (topic,) = request.topics
    assert [(one.partition_index, one.committed_offset) for one in topic.partitions] == [(0, 5), (1, 7)]


def test_nothing_to_commit_asks_nobody(broker: ScriptedBroker, cluster: Cluster) -> None:
    """A commit of no offsets sends no request."""
    GroupOffsets(cluster, "g").commit({})

    assert broker.seen == []


@pytest.mark.parametrize("code", [7, 14, 15, 16])
def test_a_coordinator_that_loads_or_moved_is_asked_again(broker: ScriptedBroker, cluster: Cluster, code: int) -> None:
    """A commit is retried if the coordinator is loading, has moved or can't replicate it in time; the client looks for
    the coordinator again, unless it is loading."""
    broker.on(OffsetCommitRequest, committed(code), committed())

    GroupOffsets(cluster, "g").commit({ZERO: Offset(5)})

    keys = [key for key, _ in broker.seen]
    assert keys.count(8) == 2
    assert keys.count(10) == (1 if code == 14 else 2)


@pytest.mark.parametrize("code", [22, 25, 27])
def test_a_group_with_members_is_left_alone(broker: ScriptedBroker, cluster: Cluster, code: int) -> None:
    """The error for a group with members says that the group is in use and what to do."""
    broker.on(OffsetCommitRequest, committed(code))

    with pytest.raises(RequestRefused, match=r"'g' has members of its own.*group id that no other client uses"):
        GroupOffsets(cluster, "g").commit({ZERO: Offset(5)})


def test_other_errors_are_raised(broker: ScriptedBroker, cluster: Cluster) -> None:
    """Other errors are raised with Kafka's error name."""
    broker.on(OffsetCommitRequest, committed(30))

    with pytest.raises(RequestRefused, match="GROUP_AUTHORIZATION_FAILED"):
        GroupOffsets(cluster, "g").commit({ZERO: Offset(5)})


def test_patience_ends(broker: ScriptedBroker, cluster: Cluster) -> None:
    """A commit fails after its timeout if no coordinator is available."""
    broker.on(FindCoordinatorRequest, lambda _: FindCoordinatorResponse(coordinators=[Coordinator(error_code=15)]))

    with pytest.raises(GaveUp, match=r"commit offsets to group 'g'.*COORDINATOR_NOT_AVAILABLE"):
        GroupOffsets(cluster, "g").commit({ZERO: Offset(5)})


@pytest.mark.parametrize("version", [9, 7])
def test_offsets_are_read_back(broker: ScriptedBroker, cluster: Cluster, version: int) -> None:
    """Committed offsets are read with the request for several groups and with the older one for a single group
    (KIP-709). A partition without a commit is left out."""
    broker.versions[9] = (1, version)
    broker.versions[10] = (0, 3)
    broker.on(
        OffsetFetchRequest,
        lambda request: OffsetFetchResponse(
            groups=[
                OffsetFetchResponseGroup(
                    group_id=group.group_id,
                    topics=[
                        OffsetFetchResponseTopics(
                            name="t",
                            partitions=[
                                OffsetFetchResponsePartitions(partition_index=0, committed_offset=5),
                                OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1),
                            ],
                        )
                    ],
                )
                for group in request.groups
            ],
            topics=[
                OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetFetchResponsePartition(partition_index=0, committed_offset=5),
                        OffsetFetchResponsePartition(partition_index=1, committed_offset=-1),
                    ],
                )
                for topic in request.topics or []
            ],
        ),
    )

    assert GroupOffsets(cluster, "g").committed([ZERO, ONE]) == {ZERO: 5}


class Member:
    """A group member whose generation rises each time its commit is refused."""

    def __init__(self) -> None:
        self.generation_id = 4
        self.refusals: list[ErrorCode] = []

    def epoch(self) -> MemberEpoch:
        return MemberEpoch(self.generation_id, "m")

    def refused(self, code: ErrorCode) -> None:
        self.refusals.append(code)
        self.generation_id += 1


def test_a_member_commits_as_what_it_is_now(broker: ScriptedBroker, cluster: Cluster) -> None:
    """A commit that is refused because of a rebalance is sent again with the member's new generation."""
    epochs: list[tuple[int, str]] = []

    def answering(code: int) -> Callable[[OffsetCommitRequest], OffsetCommitResponse]:
        def answer(request: OffsetCommitRequest) -> OffsetCommitResponse:
            epochs.append((request.generation_id_or_member_epoch, request.member_id))
            return committed(code)(request)

        return answer

    broker.on(OffsetCommitRequest, answering(27), answering(22), answering(0))
    member = Member()

    GroupOffsets(cluster, "g", member).commit({ZERO: Offset(5)}, "a note")

    assert epochs == [(4, "m"), (5, "m"), (6, "m")]
    assert member.refusals == [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION]
