"""Tests the coordinators' ports on a broker: timers, the end of a loop turn, and the batch size limit."""

from __future__ import annotations

import asyncio
import base64
import socket
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support.event_loop import in_loop
from tests.support.log_folder import NOW_MS, LogFolder, batch

from klamm.broker.partitions.partition_registry import PartitionRegistry
from klamm.broker.services.coordinators.coordinator_ports import LoopTimers, PartitionLogs, RandomIds
from klamm.broker.services.coordinators.history_topic import HistoryTopic
from klamm.config.topic_config import TopicConfig
from klamm.metadata.image import MetadataImage, PartitionImage, TopicImage
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.internal_topic_names import HISTORY_TOPIC
from klamm.protocol.types import BrokerId, LeaderEpoch, Millis, PartitionIndex, TopicId

ONE = BrokerId(1)


@in_loop
async def test_a_turn_ends_when_all_that_was_readable_is_handled() -> None:
    """A turn ends after all readable sockets are handled, although the first handler requested it, and without
    waiting for more data."""
    loop = asyncio.get_running_loop()
    timers = LoopTimers(loop)
    happened: list[str] = []
    pairs = [socket.socketpair() for _ in range(3)]
    done = asyncio.Event()

    def end_turn() -> None:
        happened.append("turn ends")
        done.set()

    def read(index: int) -> None:
        pairs[index][0].recv(1)
        if not happened:
            timers.call_soon(end_turn)
        happened.append(f"read {index}")

    for index, (ours, theirs) in enumerate(pairs):
        theirs.send(b"x")
        loop.add_reader(ours, read, index)
    await done.wait()
    assert happened[-1] == "turn ends"
    assert sorted(happened[:-1]) == ["read 0", "read 1", "read 2"]
    for ours, theirs in pairs:
        loop.remove_reader(ours)
        ours.close()
        theirs.close()


@in_loop
async def test_a_turns_end_can_be_called_off() -> None:
    """The end of a turn can be cancelled, like an alarm."""
    happened: list[str] = []
    LoopTimers(asyncio.get_running_loop()).call_soon(lambda: happened.append("turn ends")).cancel()
    await asyncio.sleep(0)
    assert happened == []


def partition_logs(*limits: int | None) -> PartitionLogs:
    """Returns a topic whose partitions have the given limits; None means a partition with another leader."""
    partitions = [
        None if limit is None else SimpleNamespace(log=SimpleNamespace(config=SimpleNamespace(max_message_bytes=limit)))
        for limit in limits
    ]
    topics: dict[str, Any] = {"offsets": SimpleNamespace(partitions=partitions)}
    return PartitionLogs("offsets", cast(PartitionRegistry, SimpleNamespace(by_name=topics)), lambda: Millis(0))


def test_largest_batch_is_the_topics_whoever_leads_its_first_partition() -> None:
    """The topic's batch limit comes from any partition that this broker leads."""
    assert partition_logs(1000, 1000).max_batch_bytes == 1000
    assert partition_logs(None, 1000).max_batch_bytes == 1000
    with pytest.raises(KafkaError) as raised:
        partition_logs(None).max_batch_bytes  # noqa: B018
    assert raised.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def in_sync(*isr: int) -> MetadataImage:
    """Returns the topics of offsets and of the history, with partitions on brokers 1, 2 and 3."""
    replicas, first = (ONE, BrokerId(2), BrokerId(3)), PartitionIndex(0)
    partition = PartitionImage(
        first, ONE, LeaderEpoch(0), replicas, tuple(map(BrokerId, isr)), partition_epoch=len(isr)
    )
    topics = {
        name: TopicImage(name, TopicId(bytes([number]) * 16), (partition,))
        for number, name in enumerate(("offsets", HISTORY_TOPIC))
    }
    return MetadataImage(topics=topics, topics_by_id={topic.topic_id: topic for topic in topics.values()})


def test_coordinators_write_nothing_with_too_few_in_sync_replicas(tmp_path: Path) -> None:
    """As with acks=all: their next answers would wait for the uncommitted records. No answer waits for the history."""
    folder = LogFolder(tmp_path)
    registry = PartitionRegistry(ONE, folder.directory, lambda topic: TopicConfig(min_insync_replicas=2))
    logs = PartitionLogs("offsets", registry, lambda: NOW_MS)
    history = HistoryTopic(registry, lambda: NOW_MS, cast(Any, None))
    first = PartitionIndex(0)

    async def scenario() -> None:
        registry.apply(None, in_sync(1, 2))
        assert logs.append(first, batch()) == 0
        registry.apply(in_sync(1, 2), in_sync(1))
        registry.finish()
        with pytest.raises(KafkaError) as raised:
            logs.append(first, batch())
        assert raised.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
        assert logs.log_end_offset(first) == 1
        assert history.append(first, batch()) == 0
        registry.apply(in_sync(1), in_sync(1, 3))
        registry.finish()
        assert logs.append(first, batch()) == 1

    asyncio.run(scenario())
    folder.close()


def test_members_of_consumer_groups_are_named_as_kafkas_uuids() -> None:
    """Member ids of consumer groups are UUIDs as 22 characters of base64. The first is never a dash, so no tool takes
    an id for an option."""
    made = [RandomIds().uuid() for _ in range(500)]
    assert len(set(made)) == 500
    assert not any(each.startswith("-") for each in made)
    decoded = [uuid.UUID(bytes=base64.urlsafe_b64decode(each + "==")) for each in made]
    assert all(len(text) == 22 for text in made)
    assert {each.version for each in decoded} == {4}
