"""Tests that eligible leader replicas go before another `min.insync.replicas` counts (KIP-966)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from klamm.metadata.config_changes import ConfigChanges, plan_configs
from klamm.metadata.image import MetadataImage, PartitionImage, ResourceType, TopicImage
from klamm.metadata.metadata_store import Plan
from klamm.metadata.replicas.eligible_leaders import rule_keys
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


def test_eligible_leaders_depend_on_the_value() -> None:
    """A change that makes a replica eligible fails if the value changes at the same moment."""
    own, none = IMAGE.topics["own"], IMAGE.topics["none"]
    assert list(rule_keys(own, own.partitions[0])) == ["topics/own", "configs/4/"]
    assert list(rule_keys(none, none.partitions[0])) == []
