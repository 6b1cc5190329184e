"""The brokers of the cluster, with the addresses for one client."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from klamm.protocol.types import BrokerId

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["Node", "nodes_for"]


class Node(NamedTuple):
    """A broker, with the address at which the client reaches it."""

    id: BrokerId
    host: str
    port: int
    rack: str | None


def nodes_for(context: RequestContext) -> list[Node]:
    """Returns all registered brokers, by id. This broker has the address that the client's listener advertises."""
    own = context.broker.node_id
    return [
        Node(broker.id, context.advertised_host, context.advertised_port, broker.rack)
        if broker.id == own
        else Node(broker.id, broker.host, broker.port, broker.rack)
        for _, broker in sorted(context.broker.metadata.image.brokers.items())
    ]
