"""How long the brokers keep committed offsets, requested from an embedded broker."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.protocol.types import BrokerId
from klamm.spark.sink.offsets_retention import offsets_retention_ms
from klamm.testing import Broker


class ClusterWithALostBroker(Cluster):
    """A cluster whose metadata still name a broker that has gone."""

    def brokers(self) -> list[BrokerId]:
        """Returns the brokers, with one that has no address."""
        return [BrokerId(99), *super().brokers()]


@pytest.fixture(scope="module")
def config() -> Iterator[ClientConfig]:
    """Returns the settings of a client of a broker that keeps offsets for 90 minutes."""
    with Broker(config={"offsets.retention.minutes": "90"}) as broker:
        yield ClientConfig.from_mapping({"bootstrap.servers": broker.bootstrap_servers})


@pytest.mark.parametrize("cls", [Cluster, ClusterWithALostBroker])
def test_the_brokers_that_answer_count(config: ClientConfig, cls: type[Cluster]) -> None:
    """A broker that can't be reached does not hide what the others say."""
    cluster = cls(config)
    assert offsets_retention_ms(cluster) == 90 * 60_000
    cluster.close()


def test_the_retention_is_unknown_without_a_broker() -> None:
    """If no broker answers, the retention is not known."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        nowhere = ClientConfig((("127.0.0.1", held.getsockname()[1]),), default_api_timeout_ms=200)
        assert offsets_retention_ms(Cluster(nowhere)) is None
