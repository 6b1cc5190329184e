"""Tests which connection of a producer a request takes."""

from __future__ import annotations

from klamm.client.cluster_view import ClusterView
from klamm.client.config import ClientConfig
from klamm.client.conversation import Offers
from klamm.client.producer.backoff import Backoff
from klamm.client.producer.links import Links
from klamm.protocol.types import Millis

OFFERS = Offers({}, {}, -1)


def test_open_connections_are_asked_in_turn() -> None:
    """Metadata come from another broker each time: one that is cut off from the others has old ones."""
    config = ClientConfig.from_mapping({"bootstrap.servers": "one:9092,two:9092"})
    links = Links(ClusterView(config), Backoff(config, lambda: 1.0), [])
    for address in config.bootstrap_servers:
        links.opened(links.to(address), OFFERS)

    asked = [links.ready(None, Millis(0)) for _ in range(2)]

    assert {link.address for link in asked if link is not None} == set(config.bootstrap_servers)
