"""Tests which responses name the current leader of a partition and its address (KIP-951)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.support.two_brokers import NOW_MS, TwoBrokers

from klamm.protocol.compression import Compression
from klamm.protocol.errors import ErrorCode
from klamm.protocol.fetch_messages import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.produce import ProduceRequest, ProduceTopic
from klamm.protocol.records import encode_batch
from klamm.protocol.types import BrokerId, TopicId

TOPIC = "orders"
LONG_MS = 60_000
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
WIDE = 300
"""So many partitions make the broker answer in steps."""


def run(path: Path, scenario: Callable[[TwoBrokers], Coroutine[Any, Any, None]], **config: Any) -> None:
    """Runs a scenario with two brokers; a minute is far more than it needs, also on a busy machine."""

    async def play() -> None:
        async with asyncio.timeout(60), TwoBrokers.start(path, **config) as brokers:
            await scenario(brokers)

    asyncio.run(play())


def batch(value: bytes = b"value") -> bytes:
    return encode_batch([(NOW_MS, b"key", value, ())])


def produce_request(topic_id: TopicId | None = None, partitions: int = 1, records: bytes = batch()) -> ProduceRequest:
    wanted: list[tuple[int, memoryview | None]] = [(index, memoryview(records)) for index in range(partitions)]
    return ProduceRequest(None, -1, LONG_MS, [ProduceTopic(None if topic_id else TOPIC, topic_id, wanted)])


def fetch_request(topic_id: TopicId, partitions: int = 1) -> FetchRequest:
    wanted = [FetchPartition(index, -1, 0, -1, -1, 1_000_000) for index in range(partitions)]
    return FetchRequest(-1, 0, 1, 1_000_000, 0, 0, -1, [FetchTopic(None, topic_id, wanted)], [])


@pytest.mark.parametrize("partitions", [1, WIDE])
def test_produce_names_the_new_leader(tmp_path: Path, partitions: int) -> None:
    """A Produce to the broker that led before gets the leader, its epoch and its address, from version 10. Partitions
    that this broker leads name no leader."""

    async def scenario(brokers: TwoBrokers) -> None:
        await brokers.create(TOPIC, partitions)
        topic_id = brokers.context(1).metadata.image.topics[TOPIC].topic_id
        moved = partitions - 1
        await brokers.move(TOPIC, 2, index=moved)
        epoch = brokers.context(1).metadata.image.topics[TOPIC].partitions[moved].leader_epoch
        for version, request in (
            (9, produce_request(partitions=partitions)),
            (10, produce_request(partitions=partitions)),
            (13, produce_request(topic_id, partitions)),
        ):
            answer = await brokers.produce(1, version, request)
            answers = {each.index: each for each in answer.topics[0].partitions}
            assert answers[moved].error_code == NOT_LEADER
            assert answers[moved].current_leader == ((2, epoch) if version >= 10 else None)
            assert [node.node_id for node in answer.node_endpoints] == ([2] if version >= 10 else [])
            others = [each for index, each in answers.items() if index != moved]
            assert {(each.error_code, each.current_leader) for each in others} <= {(0, None)}

    run(tmp_path, scenario)


@pytest.mark.parametrize("partitions", [1, WIDE])
def test_unknown_topic_has_no_leader(tmp_path: Path, partitions: int) -> None:
    """A refusal for another reason names no leader."""

    async def scenario(brokers: TwoBrokers) -> None:
        answer = await brokers.produce(1, 12, produce_request(partitions=partitions))
        assert {each.error_code for each in answer.topics[0].partitions} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert {each.current_leader for each in answer.topics[0].partitions} == {None}
        assert not answer.node_endpoints

    run(tmp_path, scenario)


def test_parked_produce_names_the_new_leader(tmp_path: Path) -> None:
    """A batch that a thread opens while this broker resigns is refused with the new leader."""
    large = encode_batch([(NOW_MS, b"key", bytes(600_000), ())], compression=Compression.GZIP)

    async def scenario(brokers: TwoBrokers) -> None:
        await brokers.create(TOPIC, configs={"cleanup.policy": "compact"})
        opening = brokers.hold_openings(1)
        waiting = asyncio.ensure_future(brokers.produce(1, 12, produce_request(records=large)))
        await brokers.move(TOPIC, 2)
        opening.set()
        answer = await waiting
        assert [(each.error_code, each.current_leader) for each in answer.topics[0].partitions] == [
            (NOT_LEADER, (2, 1))
        ]
        assert [node.node_id for node in answer.node_endpoints] == [2]

    run(tmp_path, scenario)


@pytest.mark.parametrize("partitions", [1, WIDE])
def test_leader_that_is_away_has_no_address(tmp_path: Path, partitions: int) -> None:
    """Produce and Fetch name the leader of the metadata and its epoch also if it is not live, without an address."""

    async def scenario(brokers: TwoBrokers) -> None:
        await brokers.create(TOPIC, partitions)
        topic_id = brokers.context(1).metadata.image.topics[TOPIC].topic_id
        await brokers.move(TOPIC, 7)
        produced = await brokers.produce(1, 13, produce_request(topic_id, partitions))
        fetched = await brokers.fetch(1, 17, fetch_request(topic_id, partitions))
        assert produced.topics[0].partitions[0].current_leader == (7, 1)
        assert fetched.topics[0].partitions[0].current_leader == (7, 1)
        assert not produced.node_endpoints
        assert not fetched.node_endpoints

    run(tmp_path, scenario)


def test_large_requests_name_all_leaders(tmp_path: Path) -> None:
    """A Produce and a Fetch that are answered in steps have the addresses of the leaders of all partitions, not only
    those of the first step."""

    async def scenario(brokers: TwoBrokers) -> None:
        await brokers.create(TOPIC, WIDE)
        topic_id = brokers.context(1).metadata.image.topics[TOPIC].topic_id
        await brokers.register(BrokerId(3))
        await brokers.move(TOPIC, 2)
        await brokers.move(TOPIC, 3, index=WIDE - 1)
        produced = await brokers.produce(1, 13, produce_request(topic_id, WIDE))
        fetched = await brokers.fetch(1, 17, fetch_request(topic_id, WIDE))
        assert sorted(node.node_id for node in produced.node_endpoints) == [2, 3]
        assert sorted(node.node_id for node in fetched.node_endpoints) == [2, 3]

    run(tmp_path, scenario)
