"""The metrics of the controller: which broker it is, and the partitions that no broker leads."""

from __future__ import annotations

import logging
import re
import time
import urllib.request
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.patience import Limit

from klamm.broker.server import BrokerServer
from klamm.broker.services.metrics.controller_metrics import gather_controller_figures
from klamm.testing import Broker, Cluster

PATIENCE_S = 30.0
PREFIX = "kafka_controller_kafkacontroller_"


def _until(is_true: Callable[[], bool]) -> None:
    limit = Limit(PATIENCE_S)
    while not is_true():
        assert not limit.is_over
        time.sleep(0.02)


def _figures(cluster: Cluster, broker: int) -> tuple[float, float]:
    """Returns `activecontrollercount` and `offlinepartitionscount` of a broker."""

    async def gather(server: BrokerServer) -> dict[str, float]:
        assert server.context is not None
        figures = await gather_controller_figures(server.context.metadata.image, server.context.node_id)
        return {figure.name.removeprefix(PREFIX): figure.values[0][1] for figure in figures}

    found = cluster.run_in_broker(broker, gather)
    return found["activecontrollercount"], found["offlinepartitionscount"]


def test_the_controller_counts_partitions_without_a_leader() -> None:
    """The live broker with the lowest id counts the partitions whose replicas have all died, with one replica or with
    several. The others report 0. The partitions have leaders again when a broker is back, and another broker counts
    when the controller has died."""
    with Cluster(3) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        topic = NewTopic("orders", 3, replica_assignment=[[2, 3], [1, 2], [3, 2]])
        single = NewTopic("single", 2, replica_assignment=[[3], [1]])
        for created in admin.create_topics([topic, single]).values():
            created.result()
        assert [_figures(cluster, broker) for broker in cluster.brokers] == [(1, 0), (0, 0), (0, 0)]
        cluster.kill(2)
        _until(lambda: _figures(cluster, 1) == (1, 0))
        cluster.kill(3)
        _until(lambda: _figures(cluster, 1) == (1, 3))
        cluster.restart(3)
        _until(lambda: _figures(cluster, 1) == (1, 0))
        assert _figures(cluster, 3) == (0, 0)
        cluster.kill(1)
        _until(lambda: _figures(cluster, 3) == (1, 2))


def test_the_metrics_page_names_the_controller(caplog: pytest.LogCaptureFixture) -> None:
    """A single broker is its own controller, and leads all its partitions."""
    caplog.set_level(logging.INFO, "klamm.broker.server")
    with Broker(config={"klamm.metrics.listener": "127.0.0.1:0"}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic("orders", 3)])["orders"].result()
        (port,) = [match[1] for match in map(re.compile(r"port (\d+) of ").search, caplog.messages) if match]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            text = answer.read().decode()
    found = dict(re.findall(rf"^{PREFIX}(\w+) (\S+)$", text, re.MULTILINE))
    assert found == {"activecontrollercount": "1.0", "offlinepartitionscount": "0.0"}
