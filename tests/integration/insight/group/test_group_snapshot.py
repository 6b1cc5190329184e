"""A group is described with klamm's own client, or with librdkafka if a broker refuses that client."""

from __future__ import annotations

from contextlib import closing

import pytest
from tests.integration.cli.conftest import Command
from tests.support.scripted_broker import ScriptedBroker

from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.insight.cluster_access import ClusterAccess
from klamm.insight.group import group_snapshot
from klamm.insight.group.group_snapshot import GroupObserver
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.sasl_handshake_request import SaslHandshakeRequest
from klamm.protocol.schema.sasl_handshake_response import SaslHandshakeResponse
from klamm.testing import Broker


def test_whom_the_broker_refuses_leaves_it_to_librdkafka(
    broker: Broker, klamm: Command, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a broker has refused klamm's own client once, only librdkafka is used."""
    klamm.done("produce", topic, stdin="x\n")
    klamm.done("consume", topic, "-g", group, "-e")
    with ScriptedBroker() as refusing:
        refusal = SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        refusing.on(SaslHandshakeRequest, lambda _: refusal)
        host, port = refusing.address
        config = ClientConfig.from_mapping(
            {
                "bootstrap.servers": f"{host}:{port}",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": 'PlainLoginModule required username="alice" password="secret";',
            }
        )
        monkeypatch.setattr(group_snapshot, "raw_cluster", lambda *_: Cluster(config))
        with closing(GroupObserver(ClusterAccess(broker.bootstrap_servers), group)) as observer:
            for _ in range(2):
                picture = observer.describe()
                assert picture is not None
                assert picture.state == "empty"
        handshakes = [key for key, _ in refusing.seen if key == SaslHandshakeRequest.API_KEY]
    assert len(handshakes) == 1
