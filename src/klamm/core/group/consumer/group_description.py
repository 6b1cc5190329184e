"""The decision on a ConsumerGroupDescribe request.

Version 1 gives the protocol of each member (KIP-1099). After Apache Kafka's `ConsumerGroup.asDescribedGroup`
and `ConsumerGroupMember.asConsumerGroupDescribeMember`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from klamm.core.coordinator.cluster_topics import ClusterTopics
from klamm.core.coordinator.shard_contract import Result, Ticket
from klamm.core.group.consumer.changed_subscriptions import preferred_assignor
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.consumer_groups import ConsumerGroups
from klamm.core.group.consumer.member import NO_TARGET, ConsumerGroupMember
from klamm.protocol.errors import KafkaError
from klamm.protocol.schema.consumer_group_describe_request import ConsumerGroupDescribeRequest
from klamm.protocol.schema.consumer_group_describe_response import (
    Assignment,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from klamm.protocol.types import PartitionIndex, TopicId

__all__ = ["describe_consumer_groups"]

_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1


def describe_consumer_groups(groups: ConsumerGroups, request: ConsumerGroupDescribeRequest, ticket: Ticket) -> Result:
    """Describes each group: its epochs, its members, and their present and target assignments.

    A group that is unknown or is not a consumer group gets GROUP_ID_NOT_FOUND.
    """
    described = []
    for group_id in request.group_ids:
        try:
            described.append(_describe(groups, groups.expect(group_id)))
        except KafkaError as error:
            described.append(DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message))
    result = Result()
    result.reply(ticket, ConsumerGroupDescribeResponse(groups=described))
    return result


def _describe(groups: ConsumerGroups, group: ConsumerGroup) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=preferred_assignor(group, None, None, groups.default_assignor),
        members=[_describe_member(groups.topics, group, member) for member in group.members.values()],
    )


def _describe_member(topics: ClusterTopics, group: ConsumerGroup, member: ConsumerGroupMember) -> Member:
    # A member still owns the partitions that it has not revoked yet.
    present: dict[TopicId, list[PartitionIndex]] = {}
    for assigned in (member.assigned, member.pending_revocation):
        for topic_id, partitions in assigned.items():
            present.setdefault(topic_id, []).extend(partitions)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(topics, present),
        target_assignment=_assignment(topics, group.target.get(member.member_id, NO_TARGET)),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )


def _assignment(topics: ClusterTopics, partitions: Mapping[TopicId, Iterable[PartitionIndex]]) -> Assignment:
    described = []
    for topic_id in sorted(partitions):
        facts = topics.by_id(topic_id)
        if facts is not None:
            described.append(
                TopicPartitions(
                    topic_id=topic_id, topic_name=facts.name, partitions=[*map(int, sorted(partitions[topic_id]))]
                )
            )
    return Assignment(topic_partitions=described)
