"""Checks of a ConsumerGroupHeartbeat request that don't depend on the group's state.

After Apache Kafka's `GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid`, with its messages.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from klamm.core.group.consumer.member import JOINING_EPOCH, LEAVING_EPOCH, STATIC_LEAVING_EPOCH
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest

__all__ = ["check_heartbeat"]

_CLIENTS_NAME_MEMBERS_FROM: Final = 1


def check_heartbeat(request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: Collection[str]) -> None:
    """Raises INVALID_REQUEST, or UNSUPPORTED_ASSIGNOR for an assignor that is not among `assignors`."""
    epoch = request.member_epoch
    must_have_member_id = api_version >= _CLIENTS_NAME_MEMBERS_FROM or epoch > 0 or epoch == LEAVING_EPOCH
    if must_have_member_id and not request.member_id.strip():
        raise _invalid("MemberId can't be empty.")
    if not request.group_id.strip():
        raise _invalid("GroupId can't be empty.")
    if request.instance_id is not None and not request.instance_id.strip():
        raise _invalid("InstanceId can't be empty.")
    if request.rack_id is not None and not request.rack_id.strip():
        raise _invalid("RackId can't be empty.")
    if epoch == JOINING_EPOCH:
        _check_join(request)
    elif epoch == STATIC_LEAVING_EPOCH:
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif epoch < STATIC_LEAVING_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    # A member may join without topics, but with an empty list instead of null.
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
