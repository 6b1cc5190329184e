"""Describes a group: the APIs ConsumerGroupDescribe and DescribeGroups.

The description of a group of the consumer protocol (KIP-848) has its epochs and each member's current and target
assignment; that of a classic group has the assignment that its leader gave to each member.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from klamm.client.cluster import Cluster, error_code
from klamm.client.config import Address
from klamm.client.connection import Connection
from klamm.client.coordinator import find_coordinator
from klamm.client.errors import ConnectionFailed, RequestRefused, UnsupportedByBroker
from klamm.client.retry import Retries
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema import consumer_group_describe_response, describe_groups_response
from klamm.protocol.schema.consumer_group_describe_request import ConsumerGroupDescribeRequest
from klamm.protocol.schema.consumer_group_describe_response import ConsumerGroupDescribeResponse
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.describe_groups_response import DescribeGroupsResponse

__all__ = ["ClassicDescription", "ConsumerDescription", "GroupDescriptions"]

ConsumerDescription: TypeAlias = consumer_group_describe_response.DescribedGroup
ClassicDescription: TypeAlias = describe_groups_response.DescribedGroup
_Description = ConsumerDescription | ClassicDescription

_MOVED: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
_DEAD: Final = "Dead"


class GroupDescriptions:
    """A client that describes one group, with a cached coordinator. Not thread-safe."""

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self.group_id = group_id
        self._cluster = cluster
        self._coordinator: Address | None = None

    def close(self) -> None:
        """Closes the connections to the cluster."""
        self._cluster.close()

    def describe(self) -> _Description | None:
        """Returns the group's description; None if there is no such group.

        Raises `GaveUp` when retriable errors persist, `RequestRefused` for other errors.
        """
        retries = Retries(self._cluster.config, f"describe group {self.group_id!r}")
        while True:
            try:
                found = self._describe_once()
            except ConnectionFailed as error:
                self._coordinator = None
                retries.pause(error)
                continue
            if not isinstance(found, ErrorCode):
                return found
            if found is ErrorCode.GROUP_ID_NOT_FOUND:
                return None
            if not found.retriable:
                raise RequestRefused(found, f"the coordinator does not describe group {self.group_id!r}")
            if found in _MOVED:
                self._coordinator = None
            retries.pause(found.name.upper())

    def _describe_once(self) -> _Description | ErrorCode:
        if self._coordinator is None:
            coordinator = find_coordinator(self._cluster, self.group_id)
            if isinstance(coordinator, ErrorCode):
                return coordinator
            self._coordinator = coordinator
        connection = self._cluster.connection_to_address(self._coordinator)
        described = self._describe_consumer_group(connection)
        return self._describe_classic_group(connection) if described is ErrorCode.GROUP_ID_NOT_FOUND else described

    def _describe_consumer_group(self, connection: Connection) -> ConsumerDescription | ErrorCode:
        """Returns the group, or GROUP_ID_NOT_FOUND if it is a classic group or the broker does not have the API."""
        request = ConsumerGroupDescribeRequest(group_ids=[self.group_id])
        try:
            answer = connection.request(request, ConsumerGroupDescribeResponse)
        except UnsupportedByBroker:
            return ErrorCode.GROUP_ID_NOT_FOUND
        described = answer.groups[0]
        return described if described.error_code == ErrorCode.NONE else error_code(described.error_code)

    def _describe_classic_group(self, connection: Connection) -> ClassicDescription | ErrorCode:
        answer = connection.request(DescribeGroupsRequest(groups=[self.group_id]), DescribeGroupsResponse)
        described = answer.groups[0]
        if described.error_code != ErrorCode.NONE:
            return error_code(described.error_code)
        return ErrorCode.GROUP_ID_NOT_FOUND if described.group_state == _DEAD else described
