"""Tests that eligible leader replicas go before another `min.insync.replicas` counts (KIP-966)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest
from tests.support.metadata_brokers import ENDPOINTS, connect

from klamm.metadata.config_changes import ConfigChanges, plan_configs
from klamm.metadata.image import MetadataImage, PartitionImage, ResourceType, TopicImage
from klamm.metadata.memory_store import MemoryMetadata
from klamm.metadata.metadata_store import Plan
from klamm.metadata.replicas.eligible_leaders import makes_eligible
from klamm.metadata.replicas.isr_changes import IsrProposal
from klamm.metadata.service import NewTopic
from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex, TopicId

KEY = "min.insync.replicas"


def topic(name: str, number: int, configs: dict[str, str], *elr: int) -> TopicImage:
    replicas = tuple(map(BrokerId, (1, 2, 3)))
    partition = PartitionImage(
        PartitionIndex(0), BrokerId(1), LeaderEpoch(0), replicas, replicas[:1], 4, tuple(map(BrokerId, elr))
    )
    return TopicImage(name, TopicId(bytes([number]) * 16), (partition,), configs)


IMAGE = MetadataImage(
    topics={
        "own": topic("own", 1, {KEY: "2"}, 2),
        "default": topic("default", 2, {}, 3),
        "none": topic("none", 3, {}),
    },
    configs={(ResourceType.BROKER, ""): {KEY: "2"}},
)


def planned(changes: ConfigChanges) -> Plan[None]:
    planning = plan_configs(IMAGE, changes)
    while True:
        try:
            next(planning)
        except StopIteration as end:
            plan: Plan[None] = end.value
            return plan


@pytest.mark.parametrize(
    ("changes", "cleared"),
    [
        ({(ResourceType.TOPIC, "own"): {KEY: "1"}}, 1),
        ({(ResourceType.TOPIC, "own"): {KEY: None}}, 1),
        ({(ResourceType.TOPIC, "own"): {KEY: "2", "retention.ms": "1"}}, None),
        ({(ResourceType.BROKER, ""): {KEY: "1"}}, 2),
        ({(ResourceType.BROKER, ""): {"log.retention.ms": "1"}}, None),
        ({(ResourceType.TOPIC, "none"): {KEY: "1"}}, None),
    ],
)
def test_eligible_leaders_go_first(changes: Any, cleared: int | None) -> None:
    """Only the partitions whose value changes are concerned, and the value is written after them."""
    plan = planned(changes)
    keys = [change.key.split("/")[0] for change in plan.changes]
    assert keys[:-1] == ([] if cleared is None else ["partitions"])
    assert keys[-1] in ("topics", "configs")
    if cleared is not None:
        body = json.loads(plan.changes[0].value or b"")
        assert "elr" not in body
        assert body["partitionEpoch"] == 5


def test_topic_and_cluster_change_in_one_request() -> None:
    """Both changes concern a topic that has the default now, and gets an override. Each key is written once."""
    plan = planned({(ResourceType.BROKER, ""): {KEY: "1"}, (ResourceType.TOPIC, "default"): {KEY: "3"}})
    keys = [change.key.split("/")[0] for change in plan.changes]
    assert keys == ["partitions", "configs", "topics"]


def test_only_replicas_that_become_eligible_need_the_guard() -> None:
    """A change of the value writes the partitions that have eligible leader replicas already."""
    before = IMAGE.topics["own"].partitions[0]
    assert not makes_eligible(before, before)
    assert not makes_eligible(before, replace(before, elr=()))
    assert makes_eligible(before, replace(before, elr=(BrokerId(2), BrokerId(3))))


@pytest.mark.parametrize("resource", [(ResourceType.TOPIC, "orders"), (ResourceType.BROKER, "")])
@pytest.mark.parametrize("is_config_first", [False, True])
def test_no_replica_becomes_eligible_by_an_earlier_value(resource: tuple[int, str], is_config_first: bool) -> None:
    """A leader removes a replica while another broker lowers the value. The second of both decides again, so that the
    replica is not eligible with the lower value: the leader may commit without it now."""

    async def scenario() -> None:
        metadata = MemoryMetadata()
        (one, one_store), (two, two_store) = await connect(metadata, 1), await connect(metadata, 2)
        for service in (one, two):
            await service.start_broker(ENDPOINTS)
        await one.alter_configs({(ResourceType.BROKER, ""): {KEY: "2"}})
        overrides = {KEY: "2"} if resource[0] == ResourceType.TOPIC else {}
        created = await one.ensure_topic(NewTopic("orders", assignments=[(0, [2, 1])], configs=overrides))

        def lower() -> Coroutine[Any, Any, Any]:
            return one.alter_configs({resource: {KEY: "1"}})

        def shrink() -> Coroutine[Any, Any, Any]:
            members = [(BrokerId(2), -1)]
            wanted = IsrProposal(created.topic_id, PartitionIndex(0), BrokerId(2), LeaderEpoch(0), 0, members)
            return two.replicas.alter_isr([wanted])

        first, second, late = (lower, shrink, two_store) if is_config_first else (shrink, lower, one_store)
        late.held_at[late.transactions + 1] = asyncio.Event()
        late.held.clear()
        waiting = asyncio.create_task(second())
        await late.held.wait()
        await first()
        late.held_at[late.transactions].set()
        await waiting
        partition = one.image.topics["orders"].partitions[0]
        assert (partition.isr, partition.elr) == ((BrokerId(2),), ())
        await one.close()
        await two.close()

    asyncio.run(scenario())
