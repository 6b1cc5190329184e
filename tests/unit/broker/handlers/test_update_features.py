"""Tests the UpdateFeatures API: which levels are refused with which message, and how klamm's version is raised."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.event_loop import in_loop
from tests.support.metadata_brokers import ENDPOINTS
from tests.support.steps import finished
from tests.unit.broker.handlers.conftest import MetadataBroker

from klamm.broker.handlers import api_versions, update_features
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.entries import put_features
from klamm.metadata.memory_store import MemoryMetadata
from klamm.metadata.metadata_store import Change
from klamm.metadata.service import MetadataService
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.api_versions_request import ApiVersionsRequest
from klamm.protocol.schema.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest

if TYPE_CHECKING:
    from tests.unit.broker.handlers.conftest import ServeMetadata

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
VERSION = "klamm.metadata.version"


def updates(*levels: tuple[str, int, int], validate_only: bool = False) -> UpdateFeaturesRequest:
    """Returns a request for features, levels and kinds."""
    return UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in levels
        ],
        validate_only=validate_only,
    )


async def refusal(broker: MetadataBroker, *levels: tuple[str, int, int]) -> str:
    """Returns the message with which the request is refused."""
    with pytest.raises(KafkaError) as raised:
        await finished(update_features.handle(broker.request(2), updates(*levels)))
    assert raised.value.code is ErrorCode.INVALID_UPDATE_VERSION
    return str(raised.value.message)


async def old_cluster() -> tuple[MemoryMetadata, MetadataBroker]:
    """Returns a shared store of version 1, and a broker on it."""
    metadata = MemoryMetadata()
    await metadata.connect().transact({}, [Change("cluster", b'{"id":"MkU3OEVBNTcwNTJENDM2Qk"}'), put_features(1)])
    config = BrokerConfig()
    store = metadata.connect()
    service = await MetadataService.open(store, config)
    await service.start_broker(ENDPOINTS)
    return metadata, MetadataBroker(store, service, config)


def levels_of(broker: MetadataBroker) -> dict[str, int]:
    """Returns the finalized levels that a client sees."""
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    answer = api_versions.handle(broker.request(4), request)
    return {each.name: each.max_version_level for each in answer.finalized_features}


@in_loop
async def test_single_broker_does_not_have_the_version(serve_metadata: ServeMetadata) -> None:
    """Its start raises the version, so there is nothing that a client could raise."""
    async with serve_metadata(BrokerConfig()) as broker:
        assert VERSION not in levels_of(broker)
        assert "does not support this feature" in await refusal(broker, (VERSION, 2, UPGRADE))


@in_loop
async def test_version_is_raised() -> None:
    """A validation changes nothing. After the update a client sees the new level; the update may be repeated."""
    _, broker = await old_cluster()
    assert levels_of(broker)[VERSION] == 1
    await finished(update_features.handle(broker.request(2), updates((VERSION, 2, UPGRADE), validate_only=True)))
    assert levels_of(broker)[VERSION] == 1
    for _ in range(2):
        await finished(update_features.handle(broker.request(2), updates((VERSION, 2, UPGRADE))))
        assert levels_of(broker)[VERSION] == 2
    await broker.metadata.close()


@in_loop
async def test_live_broker_of_an_earlier_release_refuses_the_version() -> None:
    """The message names the broker, also for a validation; nothing is changed."""
    metadata, broker = await old_cluster()
    early = metadata.connect()
    await early.transact({}, [Change("brokers/7", b'{"host":"h","port":9092,"rack":null}')])
    await early.transact({}, [Change("live/7", b'{"incarnation":"x"}', is_leased=True)])
    message = await refusal(broker, (VERSION, 2, UPGRADE))
    assert message.startswith("The update failed for all features since the following feature had an error: ")
    assert message.endswith("start a later version of klamm on broker(s) 7.")
    with pytest.raises(KafkaError, match="broker\\(s\\) 7"):
        await finished(update_features.handle(broker.request(2), updates((VERSION, 2, UPGRADE), validate_only=True)))
    assert levels_of(broker)[VERSION] == 1
    await early.close()
    await broker.metadata.close()


@in_loop
async def test_updates_are_made_together_or_not_at_all() -> None:
    """An error of one feature refuses the others. Of two updates of a feature the later one counts, as in Kafka."""
    _, broker = await old_cluster()
    await refusal(broker, (VERSION, 2, UPGRADE), ("group.version", 9, UPGRADE))
    assert levels_of(broker)[VERSION] == 1
    await finished(update_features.handle(broker.request(2), updates((VERSION, 9, UPGRADE), (VERSION, 2, UPGRADE))))
    assert levels_of(broker)[VERSION] == 2
    await broker.metadata.close()


@pytest.mark.parametrize(
    ("level", "kind", "reason"),
    [
        (3, UPGRADE, "only supports versions 1-2"),
        (0, SAFE_DOWNGRADE, "only supports versions 1-2"),
        (-1, UPGRADE, "A feature version cannot be less than 0."),
        (2, SAFE_DOWNGRADE, "Can't downgrade to a newer version."),
        (2, 7, "The controller does not support the given upgrade type."),
    ],
)
@in_loop
async def test_other_levels_are_refused(level: int, kind: int, reason: str) -> None:
    """The messages are Kafka's."""
    _, broker = await old_cluster()
    assert reason in await refusal(broker, (VERSION, level, kind))
    await broker.metadata.close()


@in_loop
async def test_version_is_never_lowered() -> None:
    """An upgrade to a lower level gets Kafka's message, a downgrade that of klamm."""
    _, broker = await old_cluster()
    await finished(update_features.handle(broker.request(2), updates((VERSION, 2, UPGRADE))))
    assert "Can't downgrade the version of this feature" in await refusal(broker, (VERSION, 1, UPGRADE))
    for kind in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        assert "klamm does not downgrade features." in await refusal(broker, (VERSION, 1, kind))
    await broker.metadata.close()
