"""Answers about very many groups, offsets or transactional ids: made in steps, and encoded beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, cast

import pytest
from tests.unit.broker.handlers.group_broker import GroupBroker, topic

from klamm.broker.handlers import consumer_group_describe, describe_groups, list_groups, offset_commit
from klamm.protocol.api import API_SPECS, ApiKey
from klamm.protocol.codec import decode, encode
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.schema.consumer_group_describe_request import ConsumerGroupDescribeRequest
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.list_groups_request import ListGroupsRequest
from klamm.protocol.schema.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.schema.offset_commit_response import OffsetCommitResponse
from klamm.protocol.types import TopicId

WIDE_ID = TopicId(b"w" * 16)
GROUPS = [f"group-{number}" for number in range(7)]


def asked(broker: GroupBroker, module: Any, request: Message, version: int) -> tuple[list[str], int]:
    """What the answer says of each group, and in how many turns of the event loop it was made: 0 if it was there at
    once.
    """
    key = ApiKey(cast(int, request.API_KEY))
    answer = module.handle(broker.request(key, version), request)

    async def count() -> tuple[bytes, int]:
        made = asyncio.ensure_future(cast("Awaitable[bytes]", answer))
        turns = 0
        while not made.done():
            await asyncio.sleep(0)
            turns += 1
        return made.result(), turns

    encoded, turns = (encode(answer, version), 0) if isinstance(answer, Message) else asyncio.run(count())
    arrived, _ = decode(API_SPECS[key].response_class(), version, encoded)
    return sorted(map(repr, cast(Any, arrived).groups)), turns


@pytest.mark.parametrize(
    ("module", "request_", "version", "constant"),
    [
        (list_groups, ListGroupsRequest(), 5, "IDS_AT_ONCE"),
        (list_groups, ListGroupsRequest(states_filter=["Empty"], types_filter=["classic"]), 5, "IDS_AT_ONCE"),
        (describe_groups, DescribeGroupsRequest(groups=[*GROUPS, "nobody"]), 6, "GROUPS_AT_ONCE"),
        (consumer_group_describe, ConsumerGroupDescribeRequest(group_ids=[*GROUPS, ""]), 1, "GROUPS_AT_ONCE"),
    ],
)
def test_answer_made_in_steps_says_what_it_would_say_at_once(
    monkeypatch: pytest.MonkeyPatch, module: Any, request_: Message, version: int, constant: str
) -> None:
    """Of each group, as long as nothing happens meanwhile."""
    broker = GroupBroker()
    for group_id in GROUPS:
        broker.world.commit(1, group_id=group_id)
    at_once, turns = asked(broker, module, request_, version)
    assert turns == 0
    monkeypatch.setattr(module, constant, 2)
    in_steps, turns = asked(broker, module, request_, version)
    assert in_steps == at_once
    assert len(in_steps) >= len(GROUPS)
    assert turns >= len(GROUPS) // 2


def test_many_offsets_are_committed_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each partition once in the answer, each topic once; what doesn't exist is refused as ever."""
    broker = GroupBroker()
    broker.show(topic("wide", WIDE_ID, 9))
    wishes = {"events": [0, 1], "wide": [*range(9), 12], "audit": [0]}
    request = OffsetCommitRequest(
        group_id="orders",
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=100 + index)
                    for index in indexes
                ],
            )
            for name, indexes in wishes.items()
        ],
    )
    monkeypatch.setattr(offset_commit, "OFFSETS_AT_ONCE", 5)
    answer = offset_commit.handle(broker.request(ApiKey.OFFSET_COMMIT, 9), request)

    async def finished() -> bytes:
        made = asyncio.ensure_future(cast("Awaitable[bytes]", answer))
        while not made.done():
            broker.world.timers.advance(1)
            await asyncio.sleep(0)
        return made.result()

    response, _ = decode(OffsetCommitResponse, 9, asyncio.run(finished()))
    assert sorted(topic.name for topic in response.topics) == sorted(wishes)
    assert {
        (topic.name, each.partition_index): each.error_code for topic in response.topics for each in topic.partitions
    } == {
        (name, index): ErrorCode.unknown_topic_or_partition if index == 12 else ErrorCode.none
        for name, indexes in wishes.items()
        for index in indexes
    }
    shard = broker.world.shard(broker.world.coordinator.partition_for("orders"))
    assert {
        (name, index): each.offset
        for name, committed in shard.store.offsets_of("orders").items()
        for index, each in committed.items()
    } == {(name, index): 100 + index for name, indexes in wishes.items() for index in indexes if index != 12}


def test_group_that_goes_between_two_steps_is_left_out() -> None:
    """It would not have been there a moment later."""
    broker = GroupBroker()
    for group_id in GROUPS:
        broker.world.commit(1, group_id=group_id)
    coordinator = broker.world.coordinator
    slices = coordinator.group_ids(3)
    assert sorted(group_id for _, group_ids in slices for group_id in group_ids) == GROUPS
    assert max(len(group_ids) for _, group_ids in slices) <= 3
    broker.world.shard(coordinator.partition_for(GROUPS[0])).store.groups.pop(GROUPS[0])
    answers = [
        broker.world.now(coordinator.list_groups(ListGroupsRequest(), broker.world.client(5), each)) for each in slices
    ]
    assert sorted(group.group_id for answer in answers for group in answer.groups) == GROUPS[1:]
