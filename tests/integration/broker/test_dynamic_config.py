"""Broker configuration that changes while the broker runs takes effect at once."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from tests.support.wire import Wire

from klamm.broker.server import BrokerServer
from klamm.core.group.group_config import GroupConfig
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from klamm.protocol.schema.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse
from klamm.protocol.schema.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.schema.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from klamm.testing import Broker

BROKER, GROUP = 4, 32
SET = 0


def alter(wire: Wire, resource_name: str, key: str, value: str, resource_type: int = BROKER) -> None:
    resource = AlterConfigsResource(
        resource_type=resource_type,
        resource_name=resource_name,
        configs=[AlterableConfig(name=key, config_operation=SET, value=value)],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    response = wire.call(IncrementalAlterConfigsResponse, 1, request)
    assert response.responses[0].error_code == ErrorCode.NONE, response


def retention_of(broker: Broker, topic: str) -> int:
    async def look(server: BrokerServer) -> int:
        assert server.context is not None
        return server.context.partitions.get(topic, 0).log.config.retention_ms

    return broker.run_in_broker(look)


def test_a_default_for_topics_reaches_topics_that_do_not_override_it(
    wire: Wire, served: Broker, new_topic: Callable[..., tuple[str, bytes]]
) -> None:
    """The cluster's log.retention.ms applies to old and new topics without their own retention.ms."""
    before, _ = new_topic()
    own, _ = new_topic(retention_ms="1234567")
    alter(wire, "", "log.retention.ms", "7654321")
    after, _ = new_topic()
    assert [retention_of(served, topic) for topic in (before, own, after)] == [7654321, 1234567, 7654321]


def test_a_change_outlives_a_restart() -> None:
    """A configuration that was changed on the running broker still applies after a restart."""
    broker = Broker()
    with broker:
        with Wire(broker.bootstrap_servers) as wire:
            alter(wire, "1", "log.retention.ms", "7654321")
        broker.stop()
        broker.start()
        with Wire(broker.bootstrap_servers) as wire:

            async def look(server: BrokerServer) -> int:
                return server.config.topic_defaults.retention_ms

            assert broker.run_in_broker(look) == 7654321


def group_config_of(broker: Broker, group: str) -> GroupConfig:
    async def look(server: BrokerServer) -> GroupConfig:
        return server.services.dynamic_config.group_configs(group)

    return broker.run_in_broker(look)


def test_what_is_set_on_a_group_is_told_to_its_members_with_their_next_heartbeat(wire: Wire, served: Broker) -> None:
    """A group's new consumer.heartbeat.interval.ms reaches its members with the next heartbeat response (KIP-848),
    without a new epoch. Other groups keep their interval."""

    def beat(group: str) -> int:
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id="one",
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[],
            topic_partitions=[],
        )
        response = wire.call(ConsumerGroupHeartbeatResponse, 1, request)
        assert response.error_code == ErrorCode.NONE, response
        return response.heartbeat_interval_ms

    group, other = uuid.uuid4().hex, uuid.uuid4().hex
    find = FindCoordinatorRequest(coordinator_keys=[group])
    assert not wire.call(FindCoordinatorResponse, 6, find).coordinators[0].error_code
    before = beat(group)
    alter(wire, group, "consumer.heartbeat.interval.ms", str(before + 7), GROUP)
    assert (beat(group), beat(other)) == (before + 7, before)
    alter(wire, group, "klamm.consumer.assignor.load.topic.weight.orders", "2.5", GROUP)
    assert group_config_of(served, group).load == {"topic.weight.orders": 2.5}


def test_what_groups_get_by_default_changes_on_the_running_broker() -> None:
    """group.consumer.assignment.interval.ms is dynamic (KIP-1263), for the cluster and for a single group; both values
    outlive a restart."""
    broker = Broker()
    with broker:
        with Wire(broker.bootstrap_servers) as wire:
            alter(wire, "", "group.consumer.assignment.interval.ms", "1234")
            alter(wire, "own", "consumer.assignment.interval.ms", "4321", GROUP)
        expected = [1234, 4321]
        assert [group_config_of(broker, group).assignment_interval_ms for group in ("any", "own")] == expected
        broker.stop()
        broker.start()
        assert [group_config_of(broker, group).assignment_interval_ms for group in ("any", "own")] == expected
