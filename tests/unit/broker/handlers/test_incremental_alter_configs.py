from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest
from tests.support.event_loop import in_loop
from tests.support.steps import finished

from klamm.broker.handlers import incremental_alter_configs
from klamm.config.alteration import Operation
from klamm.config.broker_config import BrokerConfig
from klamm.metadata.image import ResourceType
from klamm.metadata.service import NewTopic
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

if TYPE_CHECKING:
    from tests.unit.broker.handlers.conftest import MetadataBroker, ServeMetadata


Change = tuple[str, Operation, str | None]


def resource(kind: int, name: str, *changes: Change) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            AlterableConfig(name=key, config_operation=operation, value=value) for key, operation, value in changes
        ],
    )


async def alter(
    broker: MetadataBroker, *resources: AlterConfigsResource, validate_only: bool = False
) -> list[tuple[int, str | None]]:
    request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    response = await finished(incremental_alter_configs.handle(broker.request(1), request))
    assert [(each.resource_type, each.resource_name) for each in response.responses] == [
        (each.resource_type, each.resource_name) for each in resources
    ]
    return [(each.error_code, each.error_message) for each in response.responses]


@in_loop
async def test_settings_are_set_and_unset(serve_metadata: ServeMetadata) -> None:
    """Keys are set, appended to and unset one by one, and all other keys keep their values."""
    async with serve_metadata(BrokerConfig()) as broker:
        await broker.metadata.create_topics([NewTopic("t", partitions=1, configs={"retention.ms": "5"})])
        wanted_change = resource(
            ResourceType.TOPIC, "t", ("segment.ms", Operation.SET, "7"), ("cleanup.policy", Operation.APPEND, "compact")
        )
        assert await alter(broker, wanted_change) == [(0, None)]
        configs = broker.metadata.image.config_overrides(ResourceType.TOPIC, "t")
        assert configs == {"retention.ms": "5", "segment.ms": "7", "cleanup.policy": "delete,compact"}
        wanted_change = resource(ResourceType.TOPIC, "t", ("retention.ms", Operation.DELETE, None))
        assert await alter(broker, wanted_change) == [(0, None)]
        assert "retention.ms" not in broker.metadata.image.config_overrides(ResourceType.TOPIC, "t")


@in_loop
async def test_a_trial_changes_nothing(serve_metadata: ServeMetadata) -> None:
    """`validate_only` answers as the real request would, and changes nothing."""
    async with serve_metadata(BrokerConfig()) as broker:
        wanted_changes = (
            resource(ResourceType.BROKER, "", ("max.connections", Operation.SET, "5")),
            resource(ResourceType.BROKER, "1", ("max.connections", Operation.SET, "-5")),
        )
        before = broker.metadata.image.configs
        codes = [code for code, _ in await alter(broker, *wanted_changes, validate_only=True)]
        assert codes == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
        assert broker.metadata.image.configs == before


@in_loop
async def test_each_resource_succeeds_or_fails_by_itself(serve_metadata: ServeMetadata) -> None:
    """Each resource succeeds or fails separately."""
    async with serve_metadata(BrokerConfig()) as broker:
        results = await alter(
            broker,
            resource(ResourceType.TOPIC, "absent", ("retention.ms", Operation.SET, "5")),
            resource(ResourceType.GROUP, "g", ("consumer.session.timeout.ms", Operation.SET, "50000")),
        )
        assert results == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'absent' does not exist."), (0, None)]
        overrides = broker.metadata.image.config_overrides(ResourceType.GROUP, "g")
        assert overrides == {"consumer.session.timeout.ms": "50000"}


@pytest.mark.parametrize(
    ("wanted_change", "code", "message"),
    [
        (
            resource(ResourceType.TOPIC, "t", ("a", Operation.SET, "1"), ("a", Operation.SET, "2")),
            ErrorCode.INVALID_REQUEST,
            "Error due to duplicate config keys",
        ),
        (
            resource(ResourceType.TOPIC, "t", ("retention.ms", Operation.SET, None)),
            ErrorCode.INVALID_REQUEST,
            "Null value not supported for : retention.ms",
        ),
        (
            resource(ResourceType.TOPIC, "t", ("retention", Operation.SET, "1")),
            ErrorCode.INVALID_CONFIG,
            "Unknown topic config name: retention",
        ),
        (
            resource(ResourceType.TOPIC, "", ("retention.ms", Operation.SET, "1")),
            ErrorCode.INVALID_REQUEST,
            "Default topic resources are not allowed.",
        ),
        (
            resource(ResourceType.TOPIC, "a/b", ("retention.ms", Operation.SET, "1")),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: 'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'",
        ),
        (
            resource(ResourceType.BROKER, "2", ("max.connections", Operation.SET, "1")),
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 1, but received 2",
        ),
        (
            resource(ResourceType.BROKER, "one", ("max.connections", Operation.SET, "1")),
            ErrorCode.INVALID_REQUEST,
            "Node id must be an integer, but it is: one",
        ),
        (
            resource(ResourceType.BROKER, "1", ("num.partitions", Operation.SET, "2")),
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs dynamically: [num.partitions]",
        ),
        (
            resource(ResourceType.BROKER_LOGGER, "1", ("root", Operation.SET, "DEBUG")),
            ErrorCode.INVALID_REQUEST,
            "Log levels are not set by request.",
        ),
        (
            resource(ResourceType.GROUP, "", ("consumer.session.timeout.ms", Operation.SET, "1")),
            ErrorCode.INVALID_REQUEST,
            "Default group resources are not allowed.",
        ),
        (
            resource(ResourceType.CLIENT_METRICS, "", ("interval.ms", Operation.SET, "1000")),
            ErrorCode.INVALID_REQUEST,
            "Subscription name can't be empty",
        ),
        (
            resource(3, "x", ("a", Operation.SET, "1")),
            ErrorCode.INVALID_REQUEST,
            "Unknown resource type 3",
        ),
    ],
)
@in_loop
async def test_what_can_not_be_is_refused_in_kafkas_words(
    serve_metadata: ServeMetadata, wanted_change: AlterConfigsResource, code: ErrorCode, message: str
) -> None:
    """A wrong change is refused with the codes and messages of Kafka's ConfigAdminManager and controller."""
    async with serve_metadata(BrokerConfig()) as broker:
        await broker.metadata.create_topics([NewTopic("t", partitions=1)])
        assert await alter(broker, wanted_change) == [(code, message)]


@in_loop
async def test_a_resource_that_is_named_twice_is_not_changed(serve_metadata: ServeMetadata) -> None:
    """A resource that is named twice is refused and not changed, because the two changes may conflict."""
    async with serve_metadata(BrokerConfig()) as broker:
        wanted_change = resource(ResourceType.BROKER, "", ("max.connections", Operation.SET, "5"))
        refusal = (ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        before = broker.metadata.image.configs
        assert await alter(broker, wanted_change, wanted_change) == [refusal, refusal]
        assert broker.metadata.image.configs == before


@in_loop
async def test_all_brokers_agree_on_min_insync_replicas(serve_metadata: ServeMetadata) -> None:
    """With eligible leader replicas, `min.insync.replicas` is set for all brokers, never for one broker, and never
    unset (KIP-966)."""
    async with serve_metadata(BrokerConfig()) as broker:
        key = "min.insync.replicas"
        for_all = resource(ResourceType.BROKER, "", (key, Operation.SET, "2"))
        unset = resource(ResourceType.BROKER, "", (key, Operation.DELETE, None))
        for_one = resource(ResourceType.BROKER, "1", (key, Operation.SET, "1"))
        unset_for_one = resource(ResourceType.BROKER, "1", (key, Operation.DELETE, None))
        results = await alter(broker, for_all) + await alter(broker, unset) + await alter(broker, for_one)
        results += await alter(broker, unset_for_one)
        not_for_one = "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
        assert results == [
            (ErrorCode.NONE, None),
            (ErrorCode.INVALID_CONFIG, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."),
            (ErrorCode.INVALID_CONFIG, not_for_one),
            (ErrorCode.INVALID_CONFIG, not_for_one),
        ]
        assert broker.metadata.image.config_overrides(ResourceType.BROKER, "") == {key: "2"}


@in_loop
async def test_two_appends_at_once_both_stay(serve_metadata: ServeMetadata) -> None:
    """Concurrent appends are all kept, because each one is applied to the result of the previous one."""
    async with serve_metadata(BrokerConfig()) as broker:
        await broker.metadata.create_topics([NewTopic("t", partitions=1)])
        key = "leader.replication.throttled.replicas"
        wanted_changes = [
            resource(ResourceType.TOPIC, "t", (key, Operation.APPEND, f"{index}:1")) for index in range(3)
        ]
        await asyncio.gather(*(alter(broker, wanted_change) for wanted_change in wanted_changes))
        value = broker.metadata.image.config_overrides(ResourceType.TOPIC, "t")[key]
        assert sorted(value.split(",")) == ["0:1", "1:1", "2:1"]


@in_loop
async def test_what_has_no_effect_is_said_once(serve_metadata: ServeMetadata, caplog: pytest.LogCaptureFixture) -> None:
    """A key without effect causes one warning when the key is set, and no warning when it is unset."""
    async with serve_metadata(BrokerConfig()) as broker:
        with caplog.at_level(logging.WARNING):
            wanted_change = (("num.io.threads", Operation.SET, "2"), ("max.connections", Operation.SET, "2"))
            await alter(broker, resource(ResourceType.BROKER, "1", *wanted_change))
            await alter(broker, resource(ResourceType.BROKER, "1", ("num.io.threads", Operation.DELETE, None)))
        assert [record.getMessage() for record in caplog.records] == [
            "These keys were set on broker '1' and have no effect: num.io.threads"
        ]
