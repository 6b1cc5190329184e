"""The error response of each group API for a request that failed as a whole.

After `getErrorResponse` and similar methods of Apache Kafka's request classes, and the error branches of
`GroupCoordinatorService`.
"""

from __future__ import annotations

from klamm.core.coordinator.append_errors import coordinator_error, offset_fetch_error
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.consumer_group_describe_request import ConsumerGroupDescribeRequest
from klamm.protocol.schema.consumer_group_describe_response import ConsumerGroupDescribeResponse
from klamm.protocol.schema.consumer_group_describe_response import DescribedGroup as DescribedConsumerGroup
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from klamm.protocol.schema.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from klamm.protocol.schema.delete_groups_request import DeleteGroupsRequest
from klamm.protocol.schema.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.heartbeat_response import HeartbeatResponse
from klamm.protocol.schema.join_group_request import JoinGroupRequest
from klamm.protocol.schema.join_group_response import JoinGroupResponse
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest
from klamm.protocol.schema.leave_group_response import LeaveGroupResponse, MemberResponse
from klamm.protocol.schema.list_groups_request import ListGroupsRequest
from klamm.protocol.schema.list_groups_response import ListGroupsResponse
from klamm.protocol.schema.offset_commit_request import OffsetCommitRequest
from klamm.protocol.schema.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from klamm.protocol.schema.offset_delete_request import OffsetDeleteRequest
from klamm.protocol.schema.offset_delete_response import OffsetDeleteResponse
from klamm.protocol.schema.offset_fetch_request import OffsetFetchRequestGroup
from klamm.protocol.schema.offset_fetch_response import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from klamm.protocol.schema.sync_group_request import SyncGroupRequest
from klamm.protocol.schema.sync_group_response import SyncGroupResponse
from klamm.protocol.schema.txn_offset_commit_request import TxnOffsetCommitRequest
from klamm.protocol.schema.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

__all__ = [
    "commit_error",
    "consumer_group_describe_error",
    "consumer_group_heartbeat_error",
    "delete_groups_error",
    "describe_groups_error",
    "fetch_group_error",
    "heartbeat_error",
    "join_error",
    "leave_error",
    "list_groups_error",
    "offset_delete_error",
    "sync_error",
    "txn_offset_commit_error",
]


def join_error(request: JoinGroupRequest, code: ErrorCode) -> JoinGroupResponse:
    """Returns the response to a JoinGroup that failed."""
    return JoinGroupResponse(error_code=coordinator_error(code))


def sync_error(request: SyncGroupRequest, code: ErrorCode) -> SyncGroupResponse:
    """Returns the response to a SyncGroup that failed."""
    return SyncGroupResponse(error_code=coordinator_error(code))


def heartbeat_error(request: HeartbeatRequest, code: ErrorCode) -> HeartbeatResponse:
    """Returns the response to a Heartbeat that failed: success while the group's partition is loading."""
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return HeartbeatResponse()
    return HeartbeatResponse(error_code=coordinator_error(code))


def consumer_group_heartbeat_error(
    request: ConsumerGroupHeartbeatRequest, code: ErrorCode
) -> ConsumerGroupHeartbeatResponse:
    """Returns the response to a ConsumerGroupHeartbeat that failed."""
    return ConsumerGroupHeartbeatResponse(error_code=coordinator_error(code))


def consumer_group_describe_error(
    request: ConsumerGroupDescribeRequest, code: ErrorCode
) -> ConsumerGroupDescribeResponse:
    """Returns the response to a ConsumerGroupDescribe that failed: the same code for each group."""
    error_code = coordinator_error(code)
    return ConsumerGroupDescribeResponse(
        groups=[DescribedConsumerGroup(group_id=group_id, error_code=error_code) for group_id in request.group_ids]
    )


def leave_error(request: LeaveGroupRequest, code: ErrorCode) -> LeaveGroupResponse:
    """Returns the response to a LeaveGroup that failed; UNKNOWN_MEMBER_ID is set for each member in the request."""
    if code is not ErrorCode.UNKNOWN_MEMBER_ID:
        return LeaveGroupResponse(error_code=coordinator_error(code))
    return LeaveGroupResponse(
        members=[
            MemberResponse(member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=code)
            for member in request.members
        ]
    )


def commit_error(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    """Returns the response to an OffsetCommit that failed: the same code for each partition."""
    error_code = coordinator_error(code)
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error_code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def txn_offset_commit_error(request: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
    """Returns the response to a TxnOffsetCommit that failed: the same code for each partition."""
    error_code = coordinator_error(code)
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error_code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def fetch_group_error(group: OffsetFetchRequestGroup, code: ErrorCode, api_version: int) -> OffsetFetchResponseGroup:
    """Returns the part of an OffsetFetch response for a group that failed.

    Up to version 1 only partitions have an error code.
    """
    error_code = offset_fetch_error(code)
    if api_version >= 2:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error_code)
    return OffsetFetchResponseGroup(
        group_id=group.group_id,
        topics=[
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartitions(
                        partition_index=index, committed_offset=-1, committed_leader_epoch=-1, error_code=error_code
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in group.topics or ()
        ],
    )


def offset_delete_error(request: OffsetDeleteRequest, code: ErrorCode) -> OffsetDeleteResponse:
    """Returns the response to an OffsetDelete that failed."""
    return OffsetDeleteResponse(error_code=coordinator_error(code))


def list_groups_error(request: ListGroupsRequest, code: ErrorCode) -> ListGroupsResponse:
    """Returns the response to a ListGroups that failed; an empty list if this broker does not lead the partition."""
    return ListGroupsResponse(error_code=0 if code is ErrorCode.NOT_COORDINATOR else code)


def describe_groups_error(request: DescribeGroupsRequest, code: ErrorCode) -> DescribeGroupsResponse:
    """Returns the response to a DescribeGroups that failed: the same code for each group."""
    error_code = coordinator_error(code)
    return DescribeGroupsResponse(
        groups=[DescribedGroup(group_id=group_id, error_code=error_code) for group_id in request.groups]
    )


def delete_groups_error(request: DeleteGroupsRequest, code: ErrorCode) -> DeleteGroupsResponse:
    """Returns the response to a DeleteGroups that failed: the same code for each group."""
    error_code = coordinator_error(code)
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=group_id, error_code=error_code) for group_id in request.groups_names]
    )
