"""The committed offsets of a group: FindCoordinator, OffsetCommit and OffsetFetch.

A "simple" consumer, which is not a member, commits with generation -1; a coordinator accepts that as long as the group
has no members. Members commit with their generation and id, and the coordinator refuses commits of an earlier
generation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from klamm.client.cluster import Cluster, error_code
from klamm.client.config import Address
from klamm.client.connection import Connection
from klamm.client.coordinator import find_coordinator
from klamm.client.errors import ConnectionFailed, RequestRefused
from klamm.client.group_membership import MemberEpoch
from klamm.client.retry import Retries
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.schema.offset_commit_response import OffsetCommitResponse
from klamm.protocol.schema.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from klamm.protocol.schema.offset_fetch_response import OffsetFetchResponse
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition

__all__ = ["Commit", "CommittingMember", "GroupOffsets"]

# Version 10 of both APIs names topics by id only; this client uses names.
_HIGHEST_WITH_NAMES: Final = 9
# Since this version OffsetFetch takes a list of groups (KIP-709).
_GROUPS_FROM: Final = 8
# Since this version OffsetFetch can wait for the commits of open transactions (KIP-447).
_STABLE_FROM: Final = 7
_OUT_OF_DATE: Final = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.STALE_MEMBER_EPOCH,
)
# A coordinator that can't replicate a commit in time may be cut off from the brokers that have elected another one.
_MOVED: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT)
_NO_MEMBER: Final = MemberEpoch(-1, "")


class Commit(NamedTuple):
    """The commit of one partition."""

    offset: Offset
    metadata: str
    """Free text that the committer stores for other readers."""


class CommittingMember(Protocol):
    """The interface of a member that commits."""

    def epoch(self) -> MemberEpoch:
        """Returns the member's generation and id for a commit. Raises once the member is out of its group."""

    def refused(self, code: ErrorCode) -> None:
        """Notes that a commit was refused as out of date, so that `epoch` must be determined again."""


class GroupOffsets:
    """The committed offsets of one group. Not thread-safe.

    Its methods raise `GaveUp` when retriable errors persist, and `RequestRefused` for the others.
    """

    def __init__(self, cluster: Cluster, group_id: str, member: CommittingMember | None = None) -> None:
        """Commits as a simple consumer if there is no member."""
        self.group_id = group_id
        self._cluster = cluster
        self._member = member
        self._coordinator: Address | None = None

    def close(self) -> None:
        """Closes the connections to the cluster."""
        self._cluster.close()

    def commit(self, offsets: Mapping[TopicPartition, Offset], metadata: str = "") -> None:
        """Commits the offset of each partition; on return, the coordinator has them in its log.

        Without a member, raises `RequestRefused` if the group has live members, whose offsets the commit would
        overwrite. With a member, raises what its `epoch` raises.
        """
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (name, partition), offset in offsets.items():
            topic = topics.setdefault(name, OffsetCommitRequestTopic(name=name))
            topic.partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=offset, committed_metadata=metadata
                )
            )
        if topics:
            request = OffsetCommitRequest(group_id=self.group_id, topics=list(topics.values()))
            self._until_accepted(lambda: self._commit_once(request), "commit offsets to")

    def committed(self, topic_partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Offset]:
        """Returns the committed offsets of these partitions, without those that have none."""
        return {key: commit.offset for key, commit in self.commits(topic_partitions).items()}

    def commits(
        self, topic_partitions: Iterable[TopicPartition], *, requires_stable: bool = False
    ) -> dict[TopicPartition, Commit]:
        """Returns what `committed` does, with the metadata of each commit.

        With `requires_stable` it waits while a transaction that commits one of the offsets is open; raises
        `UnsupportedByBroker` if the broker can't do that.
        """
        by_topic: dict[str, list[int]] = {}
        for name, partition in topic_partitions:
            by_topic.setdefault(name, []).append(partition)
        found: dict[TopicPartition, Commit] = {}
        if by_topic:
            self._until_accepted(
                lambda: self._fetch_once(by_topic, found, requires_stable), "fetch the committed offsets of"
            )
        return found

    def _until_accepted(self, attempt: Callable[[], ErrorCode], operation: str) -> None:
        retries = Retries(self._cluster.config, f"{operation} group {self.group_id!r}")
        while True:
            try:
                code = attempt()
            except ConnectionFailed as error:
                self._coordinator = None
                retries.pause(error)
                continue
            if code is ErrorCode.NONE:
                return
            if code in _OUT_OF_DATE and self._member is not None:
                self._member.refused(code)
                retries.pause(code.name)
                continue
            if code in _OUT_OF_DATE:
                raise RequestRefused(
                    code,
                    f"group {self.group_id!r} has members of its own, which commit its offsets: "
                    "give this reader a group id that no other client uses",
                )
            if not code.retriable:
                raise RequestRefused(code, f"the coordinator did not {operation} group {self.group_id!r}")
            if code in _MOVED:
                self._coordinator = None
            retries.pause(code.name)

    def _connection(self) -> Connection | ErrorCode:
        if self._coordinator is None:
            found = find_coordinator(self._cluster, self.group_id)
            if isinstance(found, ErrorCode):
                return found
            self._coordinator = found
        return self._cluster.connection_to_address(self._coordinator)

    def _commit_once(self, request: OffsetCommitRequest) -> ErrorCode:
        connection = self._connection()
        if isinstance(connection, ErrorCode):
            return connection
        epoch = _NO_MEMBER if self._member is None else self._member.epoch()
        request.generation_id_or_member_epoch, request.member_id = epoch
        answer = connection.request(request, OffsetCommitResponse, highest_version=_HIGHEST_WITH_NAMES)
        return _first_error(partition.error_code for topic in answer.topics for partition in topic.partitions)

    def _fetch_once(
        self, by_topic: Mapping[str, list[int]], found: dict[TopicPartition, Commit], requires_stable: bool
    ) -> ErrorCode:
        connection = self._connection()
        if isinstance(connection, ErrorCode):
            return connection
        lowest = _STABLE_FROM if requires_stable else 1
        version = connection.version_of(OffsetFetchRequest.API_KEY, "OffsetFetch", lowest, _HIGHEST_WITH_NAMES)
        request = OffsetFetchRequest(require_stable=requires_stable)
        if version >= _GROUPS_FROM:
            topics = [OffsetFetchRequestTopics(name=name, partition_indexes=list(by_topic[name])) for name in by_topic]
            request.groups = [OffsetFetchRequestGroup(group_id=self.group_id, topics=topics)]
        else:
            request.group_id = self.group_id
            request.topics = [
                OffsetFetchRequestTopic(name=name, partition_indexes=list(by_topic[name])) for name in by_topic
            ]
        answer = connection.request(request, OffsetFetchResponse, highest_version=_HIGHEST_WITH_NAMES)
        group = answer.groups[0] if answer.groups else answer
        if group.error_code != ErrorCode.NONE:
            return error_code(group.error_code)
        found.clear()
        for topic in group.topics:
            for partition in topic.partitions:
                if partition.error_code != ErrorCode.NONE:
                    return error_code(partition.error_code)
                if partition.committed_offset >= 0:
                    key = TopicPartition(topic.name, PartitionIndex(partition.partition_index))
                    found[key] = Commit(Offset(partition.committed_offset), partition.metadata or "")
        return ErrorCode.NONE


def _first_error(codes: Iterable[int]) -> ErrorCode:
    return next((error_code(code) for code in codes if code != ErrorCode.NONE), ErrorCode.NONE)
