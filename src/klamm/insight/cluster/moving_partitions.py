"""Partitions that move to other brokers: begin, cancel and list reassignments (KIP-455)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from klamm.insight.cluster_requests import ClusterRequests, code_name
from klamm.insight.errors import ClusterError
from klamm.insight.words import PartitionKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from klamm.protocol.schema.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from klamm.protocol.schema.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from klamm.protocol.schema.list_partition_reassignments_response import ListPartitionReassignmentsResponse

__all__ = ["Moving", "begin_reassignments", "cancel_reassignments", "reassignments_in_progress"]


@dataclass(frozen=True, slots=True)
class Moving:
    """A partition whose replicas change now."""

    topic: str
    index: int
    replicas: tuple[int, ...]
    """All replicas, also those that are added and removed."""
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def key(self) -> PartitionKey:
        """Topic and index."""
        return self.topic, self.index

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas when the reassignment has ended."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)


def reassignments_in_progress(
    requests: ClusterRequests, topics: Collection[str] | None = None
) -> dict[PartitionKey, Moving]:
    """Returns the reassignments of these topics, or all, in the order of topics and partitions. Raises ClusterError."""
    answer = requests.ask(ListPartitionReassignmentsRequest(topics=None), ListPartitionReassignmentsResponse)
    if answer.error_code:
        raise ClusterError(_refusal(answer.error_code, answer.error_message))
    moving = [
        Moving(
            topic.name,
            each.partition_index,
            tuple(each.replicas),
            tuple(each.adding_replicas),
            tuple(each.removing_replicas),
        )
        for topic in answer.topics
        if topics is None or topic.name in topics
        for each in topic.partitions
    ]
    return {each.key: each for each in sorted(moving, key=lambda each: each.key)}


def begin_reassignments(
    requests: ClusterRequests, wanted: Mapping[PartitionKey, Sequence[int]], *, leaves_out_missing: bool = False
) -> dict[PartitionKey, str]:
    """Asks for these replicas, the preferred leader first. Returns why partitions were refused, unless it
    `leaves_out_missing` ones: partitions that do not exist. Raises ClusterError.
    """
    accepted = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if leaves_out_missing else ErrorCode.NONE
    return _alter(requests, {key: list(replicas) for key, replicas in wanted.items()}, accepted)


def cancel_reassignments(requests: ClusterRequests, keys: Iterable[PartitionKey]) -> dict[PartitionKey, str]:
    """Goes back to the replicas before the reassignment. Returns why partitions were refused. Raises ClusterError.

    A reassignment that has ended meanwhile is not refused.
    """
    return _alter(requests, dict.fromkeys(keys), ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)


def _alter(
    requests: ClusterRequests,
    wanted: Mapping[PartitionKey, list[int] | None],
    accepted: ErrorCode = ErrorCode.NONE,
) -> dict[PartitionKey, str]:
    topics: defaultdict[str, list[ReassignablePartition]] = defaultdict(list)
    for (topic, index), replicas in sorted(wanted.items(), key=lambda each: each[0]):
        topics[topic].append(ReassignablePartition(partition_index=index, replicas=replicas))
    if not topics:
        return {}
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=name, partitions=partitions) for name, partitions in topics.items()]
    )
    answer = requests.ask(request, AlterPartitionReassignmentsResponse)
    if answer.error_code:
        raise ClusterError(_refusal(answer.error_code, answer.error_message))
    return {
        (topic.name, each.partition_index): _refusal(each.error_code, each.error_message)
        for topic in answer.responses
        for each in topic.partitions
        if each.error_code not in (ErrorCode.NONE, accepted)
    }


def _refusal(code: int, message: str | None) -> str:
    return f"{code_name(code)}: {message}" if message else code_name(code)
