"""The configs of one group, for example its session timeout in the consumer protocol."""

from __future__ import annotations

from typing import Final

from tests.support.wire import Wire

from klamm.protocol.schema.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from klamm.protocol.schema.incremental_alter_configs_response import IncrementalAlterConfigsResponse

__all__ = ["set_group_config"]

_GROUP_RESOURCE: Final = 32


def set_group_config(bootstrap: str, group: str, **configs: str) -> None:
    """Sets configs of a group; underscores in the names stand for dots."""
    changes = [
        AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value) for key, value in configs.items()
    ]
    resource = AlterConfigsResource(resource_type=_GROUP_RESOURCE, resource_name=group, configs=changes)
    with Wire(bootstrap) as wire:
        response = wire.call(
            IncrementalAlterConfigsResponse, 1, IncrementalAlterConfigsRequest(resources=[resource])
        ).responses[0]
    assert not response.error_code, response
