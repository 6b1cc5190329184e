"""Answers about very many groups or transactional ids, which are made in steps and encoded beside the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, cast

import pytest
from tests.unit.broker.handlers.group_broker import GroupBroker

from klamm.broker.handlers import consumer_group_describe, describe_groups, list_groups
from klamm.protocol.api import API_SPECS, ApiKey
from klamm.protocol.codec import decode, encode
from klamm.protocol.message import Message
from klamm.protocol.schema.consumer_group_describe_request import ConsumerGroupDescribeRequest
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.list_groups_request import ListGroupsRequest

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
