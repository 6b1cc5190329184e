"""Administrative requests about groups.

admin: describe GROUP... v=5             (DescribeGroups; without names, the scenario's group)
admin: list states=Stable,Empty types=consumer v=5
admin: delete-group GROUP...
admin: configure consumer.session.timeout.ms=1000 consumer.heartbeat.interval.ms=     (empty: back to the default)
"""

from __future__ import annotations

from itertools import chain

from tests.scenarios.states import show_classic_group, show_error
from tests.scenarios.values import Arguments
from tests.scenarios.world import Ask, Member, World

from klamm.protocol.message import Message
from klamm.protocol.schema.delete_groups_request import DeleteGroupsRequest
from klamm.protocol.schema.delete_groups_response import DeleteGroupsResponse
from klamm.protocol.schema.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from klamm.protocol.schema.describe_configs_response import DescribeConfigsResponse
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.describe_groups_response import DescribeGroupsResponse
from klamm.protocol.schema.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.schema.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from klamm.protocol.schema.list_groups_request import ListGroupsRequest
from klamm.protocol.schema.list_groups_response import ListGroupsResponse

__all__ = ["configure", "delete_group", "describe", "list_groups"]

DESCRIBE, LIST, DELETE = 6, 5, 2
GROUP_RESOURCE = 32
SET, DELETE_CONFIG = 0, 1
GROUP_CONFIG = 8
"""The source of a setting of the group."""


def describe(member: Member, arguments: Arguments) -> Ask:
    """Builds a DescribeGroups request."""
    world = member.world
    version = arguments.number("v", DESCRIBE)
    groups = arguments.words() or [world.group]

    def tell(response: Message) -> str:
        assert isinstance(response, DescribeGroupsResponse)
        told = []
        for group in response.groups:
            message = f" {world.short(group.error_message)!r}" if group.error_message else ""
            error = [f"{show_error(group.error_code)}{message}"] if group.error_code else []
            lines = chain([world.short(group.group_id) or "none"], error, show_classic_group(world, group))
            told.append(" | ".join(lines))
        return "; ".join(told)

    return Ask(DescribeGroupsRequest(groups=[world.long(group) for group in groups]), version, tell)


def list_groups(member: Member, arguments: Arguments) -> Ask:
    """Builds a ListGroups request; the answer shows only the scenario's groups."""
    world = member.world
    states, types = arguments.given("states"), arguments.given("types")
    request = ListGroupsRequest(
        states_filter=states.split(",") if states else [], types_filter=types.split(",") if types else []
    )

    def tell(response: Message) -> str:
        assert isinstance(response, ListGroupsResponse)
        if response.error_code:
            return show_error(response.error_code)
        return ", ".join(
            sorted(
                f"{world.short(group.group_id)} {group.group_type} {group.group_state} {group.protocol_type}".rstrip()
                for group in response.groups
                if group.group_id.startswith(world.prefix)
            )
            or ["nothing"]
        )

    return Ask(request, arguments.number("v", LIST), tell)


def delete_group(member: Member, arguments: Arguments) -> Ask:
    """Builds a DeleteGroups request."""
    world = member.world
    groups = arguments.words() or [world.group]

    def tell(response: Message) -> str:
        assert isinstance(response, DeleteGroupsResponse)
        return ", ".join(
            sorted(f"{world.short(each.group_id) or 'none'} {show_error(each.error_code)}" for each in response.results)
        )

    request = DeleteGroupsRequest(groups_names=[world.long(group) for group in groups])
    return Ask(request, arguments.number("v", DELETE), tell)


def configure(member: Member, arguments: Arguments) -> Ask:
    """Builds an IncrementalAlterConfigs request for the group."""
    world = member.world
    configs = []
    for word in arguments.words():
        name, _, value = word.partition("=")
        operation = SET if value else DELETE_CONFIG
        configs.append(AlterableConfig(name=name, config_operation=operation, value=value or None))
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=world.group_id, configs=configs)

    def tell(response: Message) -> str:
        assert isinstance(response, IncrementalAlterConfigsResponse)
        (result,) = response.responses
        told = show_error(result.error_code)
        return f"{told} {world.short(result.error_message)!r}" if result.error_message else told

    def learn(response: Message) -> None:
        assert isinstance(response, IncrementalAlterConfigsResponse)
        if not response.responses[0].error_code:
            world.peer.until(lambda: _are_in_effect(world, configs))

    return Ask(IncrementalAlterConfigsRequest(resources=[resource]), 1, tell, learn)


def _are_in_effect(world: World, configs: list[AlterableConfig]) -> bool:
    """Returns whether the group's coordinator, which answers DescribeConfigs, knows these settings."""
    asked = DescribeConfigsResource(resource_type=GROUP_RESOURCE, resource_name=world.group_id)
    (result,) = world.peer.wire.call(DescribeConfigsResponse, 4, DescribeConfigsRequest(resources=[asked])).results
    told = {each.name: each.value for each in result.configs if each.config_source == GROUP_CONFIG}
    return all(told.get(each.name) == each.value for each in configs)
