"""Tells a consumer which follower is closest to it, if `replica.selector.class` asks for that (KIP-392)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.protocol.types import BrokerId, Offset

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext
    from klamm.broker.partitions.partition import Partition
    from klamm.metadata.image import MetadataImage
    from klamm.protocol.fetch_messages import FetchRequest

__all__ = ["FIRST_VERSION_WITH_RACK", "ClosestReplica"]

FIRST_VERSION_WITH_RACK: Final = 11
"""First version of Fetch with which a consumer can say its rack, and may read from followers."""


class ClosestReplica:
    """The choice of a replica for the consumer that sends one request."""

    __slots__ = ("_image", "_listener_name", "_rack")

    def __init__(self, rack: str, listener_name: str, image: MetadataImage) -> None:
        """Prepares the choice for a consumer in `rack`, which is connected to the listener of this name."""
        self._rack = rack
        self._listener_name = listener_name
        self._image = image

    @classmethod
    def of_request(cls, context: RequestContext, request: FetchRequest) -> ClosestReplica | None:
        """Returns the choice for the sender of the request; None if it reads from the leader whatever its rack is."""
        broker = context.broker
        if (
            not request.rack_id
            or request.replica_id >= 0
            or context.api_version < FIRST_VERSION_WITH_RACK
            or not broker.config.replica_selector_class
        ):
            return None
        return cls(request.rack_id, context.connection.listener_name, broker.metadata.image)

    def follower(self, partition: Partition, fetch_offset: Offset) -> BrokerId | None:
        """Returns the follower from which the consumer should read the offset; None: from this leader."""
        followers = partition.followers
        return None if followers is None else followers.closest(self._rack, self._rack_of, fetch_offset)

    def _rack_of(self, broker_id: BrokerId) -> str | None:
        broker = self._image.brokers.get(broker_id)
        return None if broker is None or broker.endpoint(self._listener_name) is None else broker.rack
