"""Tests when a store gets a higher metadata version."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.support.metadata_brokers import ENDPOINTS, connect

from klamm.metadata.entries import put_features
from klamm.metadata.image import NO_EPOCH, BrokerImage, MetadataImage
from klamm.metadata.memory_store import MemoryMetadata
from klamm.metadata.metadata_store import Change
from klamm.metadata.metadata_version import METADATA_VERSION
from klamm.metadata.service import NewTopic
from klamm.metadata.version_changes import plan_version
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import BrokerId


def image(*versions: int) -> MetadataImage:
    """Returns a store of version 1 with brokers 1, 2 and so on, which know these versions."""
    brokers = {
        BrokerId(number): BrokerImage(BrokerId(number), "h", 9092, None, 1, metadata_version=version)
        for number, version in enumerate(versions, 1)
    }
    return MetadataImage(brokers=brokers, registrations=brokers, metadata_version=1)


def test_version_that_all_brokers_know_is_written() -> None:
    """The decision depends on all registrations: a broker that starts again with an earlier program changes its own."""
    plan = plan_version(image(2, 2), 2)
    assert list(plan.changes) == [put_features(2)]
    assert plan.reads == ["brokers/1", "brokers/2"]


def test_present_version_changes_nothing() -> None:
    """The request may be repeated."""
    assert not plan_version(image(1), 1).changes


@pytest.mark.parametrize(
    ("of", "version", "reason"),
    [
        (image(2, 1, 1), 2, r"start a later version of klamm on broker\(s\) 2, 3"),
        (image(2), METADATA_VERSION + 1, f"knows versions up to {METADATA_VERSION}"),
        (replace(image(2), metadata_version=2), 1, "can't be lowered"),
    ],
)
def test_refusals(of: MetadataImage, version: int, reason: str) -> None:
    """The message tells what to do."""
    with pytest.raises(KafkaError, match=reason) as refused:
        plan_version(of, version)
    assert refused.value.code is ErrorCode.INVALID_UPDATE_VERSION


def test_broker_that_is_away_refuses_nothing() -> None:
    """It may never come back. With an earlier program it refuses the store at its next start."""
    away = BrokerImage(BrokerId(2), "h", 9092, None, NO_EPOCH)
    of = image(2)
    plan = plan_version(replace(of, registrations={**of.registrations, away.id: away}), 2)
    assert plan.reads == ["brokers/1", "brokers/2"]


def test_cluster_of_version_1_gets_replicas_when_it_is_raised() -> None:
    """A store of several brokers keeps its version at a start, although all brokers know a later one."""

    async def scenario() -> None:
        metadata = MemoryMetadata()
        entries = [Change("cluster", b'{"id":"MkU3OEVBNTcwNTJENDM2Qk"}'), put_features(1)]
        await metadata.connect().transact({}, entries)
        (one, _), (two, _) = await connect(metadata, 1), await connect(metadata, 2)
        for service in (one, two):
            await service.start_broker(ENDPOINTS)
        wanted = NewTopic("t", partitions=1, replication_factor=2)
        assert one.image.metadata_version == 1
        with pytest.raises(KafkaError, match="need version 2"):
            await one.ensure_topic(wanted)
        await two.raise_metadata_version(2, validate_only=True)
        assert one.image.metadata_version == 1
        await two.raise_metadata_version(2)
        await two.raise_metadata_version(2)
        assert one.image.metadata_version == 2
        assert len((await one.ensure_topic(wanted)).partitions[0].replicas) == 2
        await one.close()
        await two.close()

    asyncio.run(scenario())
