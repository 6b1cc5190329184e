"""The brokers of the cluster, with the addresses for one client."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from klamm.metadata.image import NO_BROKER
from klamm.protocol.types import BrokerId

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext
    from klamm.metadata.image import MetadataImage

__all__ = ["Node", "controller_among", "fenced_nodes_for", "nodes_for", "reachable_brokers"]


class Node(NamedTuple):
    """A broker, with the address at which the client reaches it."""

    id: BrokerId
    host: str
    port: int
    rack: str | None


def nodes_for(context: RequestContext) -> list[Node]:
    """Returns the live brokers that have the client's listener, by id, with the addresses of that listener.

    For this broker, that is the address that the listener advertises to this client. A broker that has registered with
    the same host as this one gets the same host here, too: both listen at all addresses of one machine, for example.
    """
    own, listener_name = context.broker.node_id, context.connection.listener_name
    brokers = context.broker.metadata.image.brokers
    registered = brokers[own].endpoint(listener_name) if own in brokers else None
    nodes = []
    for _, broker in sorted(brokers.items()):
        if broker.id == own:
            nodes.append(Node(broker.id, context.advertised_host, context.advertised_port, broker.rack))
        elif (address := broker.endpoint(listener_name)) is not None:
            is_same_host = registered is not None and registered.host == address.host
            host = context.advertised_host if is_same_host else address.host
            nodes.append(Node(broker.id, host, address.port, broker.rack))
    return nodes


def fenced_nodes_for(context: RequestContext) -> list[Node]:
    """Returns the registered brokers that are not live, by id, with the addresses of the client's listener.

    Kafka calls such a broker fenced; the metadata of topics do not list it.
    """
    image, listener_name = context.broker.metadata.image, context.connection.listener_name
    nodes = []
    for broker_id, broker in sorted(image.registrations.items()):
        if broker_id not in image.brokers and (address := broker.endpoint(listener_name)) is not None:
            nodes.append(Node(broker_id, address.host, address.port, broker.rack))
    return nodes


def controller_among(nodes: Sequence[Node], image: MetadataImage) -> BrokerId:
    """Returns the broker to which clients send administrative requests: the controller if they can reach it, otherwise
    the first, since any broker handles them."""
    if any(node.id == image.controller_id for node in nodes):
        return image.controller_id
    return nodes[0].id if nodes else NO_BROKER


def reachable_brokers(context: RequestContext) -> Collection[BrokerId]:
    """Returns the ids of the brokers that `nodes_for` returns."""
    own, listener_name = context.broker.node_id, context.connection.listener_name
    brokers = context.broker.metadata.image.brokers
    if len(brokers) == 1 and own in brokers:
        return brokers
    return {each.id for each in brokers.values() if each.id == own or each.endpoint(listener_name) is not None}
