"""Loads that give a broker much work at once: each is one or a few client operations that affect very many objects."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TypeVar

from bench.wire import Connection
from klamm.protocol.codec import Message
from klamm.protocol.schema.consumer_group_describe_request import ConsumerGroupDescribeRequest
from klamm.protocol.schema.consumer_group_describe_response import ConsumerGroupDescribeResponse
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from klamm.protocol.schema.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from klamm.protocol.schema.create_topics_request import CreatableTopic, CreateTopicsRequest
from klamm.protocol.schema.create_topics_response import CreateTopicsResponse
from klamm.protocol.schema.delete_groups_request import DeleteGroupsRequest
from klamm.protocol.schema.delete_groups_response import DeleteGroupsResponse
from klamm.protocol.schema.delete_topics_request import DeleteTopicsRequest
from klamm.protocol.schema.delete_topics_response import DeleteTopicsResponse
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.describe_groups_response import DescribeGroupsResponse
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse
from klamm.protocol.schema.init_producer_id_request import InitProducerIdRequest
from klamm.protocol.schema.init_producer_id_response import InitProducerIdResponse
from klamm.protocol.schema.list_groups_request import ListGroupsRequest
from klamm.protocol.schema.list_groups_response import ListGroupsResponse
from klamm.protocol.schema.list_transactions_request import ListTransactionsRequest
from klamm.protocol.schema.list_transactions_response import ListTransactionsResponse
from klamm.protocol.schema.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.schema.offset_commit_response import OffsetCommitResponse

__all__ = [
    "beat",
    "commit",
    "create_topics",
    "delete_group",
    "delete_topic",
    "describe_groups",
    "initialize_producers",
    "join",
    "list_groups",
    "list_transactions",
    "regular_expressions",
    "subscribe_by",
]

M = TypeVar("M", bound=Message)

_COMMIT_VERSION = 7
_CREATE_VERSION = 4
_DELETE_TOPICS_VERSION = 3
_DELETE_GROUPS_VERSION = 1
_HEARTBEAT_VERSION = 1
_LIST_GROUPS_VERSION = 5
_DESCRIBE_GROUPS_VERSION = 5
_CONSUMER_GROUP_DESCRIBE_VERSION = 1
_INIT_PRODUCER_ID_VERSION = 4
_FIND_COORDINATOR_VERSION = 4
_LIST_TRANSACTIONS_VERSION = 1
_TOPICS_IN_A_REQUEST = 1000
_INVALID_REGULAR_EXPRESSION = 128


def create_topics(address: str, names: Iterable[str], partitions: int) -> None:
    """Creates topics, a thousand per request."""
    wishes = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
    requests = [
        CreateTopicsRequest(topics=wishes[start : start + _TOPICS_IN_A_REQUEST], timeout_ms=60_000)
        for start in range(0, len(wishes), _TOPICS_IN_A_REQUEST)
    ]
    for answer in _ask(address, CreateTopicsResponse, _CREATE_VERSION, requests):
        _expect_none(topic.error_code for topic in answer.topics)


def delete_topic(address: str, name: str) -> None:
    """Deletes one topic."""
    request = DeleteTopicsRequest(topic_names=[name], timeout_ms=60_000)
    for answer in _ask(address, DeleteTopicsResponse, _DELETE_TOPICS_VERSION, [request]):
        _expect_none(topic.error_code for topic in answer.responses)


def list_groups(address: str) -> list[str]:
    """Lists all groups and returns their ids."""
    (answer,) = _ask(address, ListGroupsResponse, _LIST_GROUPS_VERSION, [ListGroupsRequest()])
    _expect_none([answer.error_code])
    return [group.group_id for group in answer.groups]


def describe_groups(address: str, names: list[str]) -> None:
    """Describes these groups, in one request for each of the two protocols."""
    classic = DescribeGroupsRequest(groups=names)
    _ask(address, DescribeGroupsResponse, _DESCRIBE_GROUPS_VERSION, [classic])
    (answer,) = _ask(
        address,
        ConsumerGroupDescribeResponse,
        _CONSUMER_GROUP_DESCRIBE_VERSION,
        [ConsumerGroupDescribeRequest(group_ids=names)],
    )
    _expect_none(group.error_code for group in answer.groups)


def initialize_producers(address: str, transactional_ids: Iterable[str]) -> None:
    """Initializes a producer for each transactional id."""
    requests = [
        InitProducerIdRequest(transactional_id=each, transaction_timeout_ms=60_000) for each in transactional_ids
    ]
    find = FindCoordinatorRequest(key_type=1, coordinator_keys=["transactional"])
    for _ in range(300):  # The first request creates `__transaction_state`.
        _ask(address, FindCoordinatorResponse, _FIND_COORDINATOR_VERSION, [find])
        (first,) = _ask(address, InitProducerIdResponse, _INIT_PRODUCER_ID_VERSION, requests[:1])
        if not first.error_code:
            break
        time.sleep(0.1)
    answers = _ask(address, InitProducerIdResponse, _INIT_PRODUCER_ID_VERSION, requests[1:])
    _expect_none(answer.error_code for answer in answers)


def list_transactions(address: str) -> list[str]:
    """Lists all transactional ids and returns them."""
    (answer,) = _ask(address, ListTransactionsResponse, _LIST_TRANSACTIONS_VERSION, [ListTransactionsRequest()])
    _expect_none([answer.error_code])
    return [each.transactional_id for each in answer.transaction_states]


def delete_group(address: str, name: str) -> None:
    """Deletes one group with all its offsets."""
    request = DeleteGroupsRequest(groups_names=[name])
    for answer in _ask(address, DeleteGroupsResponse, _DELETE_GROUPS_VERSION, [request]):
        _expect_none(group.error_code for group in answer.results)


def commit(address: str, commits: Iterable[tuple[str, str]], partitions: int) -> None:
    """Commits an offset for all partitions of a topic at once, for each pair of a group without members and a topic."""
    committed = [OffsetCommitRequestPartition(partition_index=each, committed_offset=1) for each in range(partitions)]
    requests = (
        OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=committed)])
        for group, topic in commits
    )
    for answer in _ask(address, OffsetCommitResponse, _COMMIT_VERSION, requests):
        _expect_none(partition.error_code for topic in answer.topics for partition in topic.partitions)


def join(address: str, members: Iterable[tuple[str, str, str]]) -> list[ConsumerGroupHeartbeatRequest]:
    """Joins members to consumer groups, each given by group, member id and topic. Returns a heartbeat for each."""
    joins = [
        ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=0,
            rebalance_timeout_ms=300_000,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        )
        for group, member_id, topic in members
    ]
    answers = _ask(address, ConsumerGroupHeartbeatResponse, _HEARTBEAT_VERSION, joins)
    _expect_none(answer.error_code for answer in answers)
    return [
        ConsumerGroupHeartbeatRequest(
            group_id=asked.group_id, member_id=asked.member_id, member_epoch=answer.member_epoch
        )
        for asked, answer in zip(joins, answers, strict=True)
    ]


def beat(
    address: str, heartbeats: list[ConsumerGroupHeartbeatRequest], rounds: int = 1
) -> list[ConsumerGroupHeartbeatRequest]:
    """Sends rounds of heartbeats. Returns the heartbeats of the next round, with the new epochs."""
    for _ in range(rounds):
        answers = _ask(address, ConsumerGroupHeartbeatResponse, _HEARTBEAT_VERSION, heartbeats)
        _expect_none(answer.error_code for answer in answers)
        for heartbeat, answer in zip(heartbeats, answers, strict=True):
            heartbeat.member_epoch = answer.member_epoch
    return heartbeats


def regular_expressions() -> list[str]:
    """Returns expressions that RE2 compiles slowly, for different reasons: classes, repetitions, length, or all."""
    return [
        r"\pL{1000}",
        r"[\pL\pN]{1000}",
        r"(?i)\pL{500}",
        r"\pL" * 5000,
        r"(?:(?:\pL{10}){10}){10}",
        ".{1000}" * 20,
        "a{1000}" * 100,
        "[^a]{1000}" * 10,
        "a" * 30_000,
        "|".join(f"topic-{number}" for number in range(2_500)),
        "a?" * 15_000,
        "(" * 900 + "a" + ")" * 900 + "{1000}",
        "[" + "".join(rf"\p{{{name}}}" for name in ("Greek", "Lu", "Han", "Cyrillic")) * 250 + "]",
    ]


def subscribe_by(address: str, expressions: Iterable[str]) -> None:
    """Subscribes a member of a new group by each expression. The broker may refuse an expression as invalid."""
    joins = [
        ConsumerGroupHeartbeatRequest(
            group_id=f"by-expression-{number}",
            member_id=f"member-{number}",
            member_epoch=0,
            rebalance_timeout_ms=300_000,
            subscribed_topic_regex=expression,
            topic_partitions=[],
        )
        for number, expression in enumerate(expressions)
    ]
    for answer in _ask(address, ConsumerGroupHeartbeatResponse, _HEARTBEAT_VERSION, joins):
        if answer.error_code not in (0, _INVALID_REGULAR_EXPRESSION):
            raise RuntimeError(f"error {answer.error_code}: {answer.error_message}")


def _ask(address: str, response_class: type[M], version: int, requests: Iterable[Message]) -> list[M]:
    with Connection(address) as connection:
        return connection.ask_all(response_class, version, requests)


def _expect_none(codes: Iterable[int]) -> None:
    failed = {code for code in codes if code}
    if failed:
        raise RuntimeError(f"the broker answered with errors: {failed}")
