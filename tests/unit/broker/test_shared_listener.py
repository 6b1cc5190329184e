"""Which brokers of a cluster are warned that clients can send the requests of brokers."""

from __future__ import annotations

import logging

import pytest

from klamm.broker.shared_listener import warn_of_shared_listener
from klamm.config.broker_config import BrokerConfig


def _warnings(caplog: pytest.LogCaptureFixture, **keys: str) -> list[str]:
    caplog.set_level(logging.WARNING, "klamm.broker.shared_listener")
    warn_of_shared_listener(BrokerConfig.load({key.replace("_", "."): value for key, value in keys.items()}))
    return caplog.messages


@pytest.mark.parametrize("host", ["10.0.0.4", "0.0.0.0", "", "[::]", "[2001:db8::4]", "broker.example.org"])
def test_one_listener_that_others_reach(caplog: pytest.LogCaptureFixture, host: str) -> None:
    """The warning names the listener and the key that helps."""
    (warning,) = _warnings(caplog, listeners=f"PLAINTEXT://{host}:9092")
    assert f"PLAINTEXT://{host}:9092" in warning
    assert "inter.broker.listener.name" in warning


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "LocalHost", "[::1]"])
def test_one_listener_of_this_machine(caplog: pytest.LogCaptureFixture, host: str) -> None:
    """A client that reaches a loopback address is on the machine."""
    assert not _warnings(caplog, listeners=f"PLAINTEXT://{host}:9092")


def test_a_listener_for_brokers(caplog: pytest.LogCaptureFixture) -> None:
    """With several listeners, the brokers have one that clients need not reach."""
    assert not _warnings(
        caplog,
        listeners="CLIENTS://10.0.0.4:9092,BROKERS://10.0.0.4:9093",
        listener_security_protocol_map="CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
        inter_broker_listener_name="BROKERS",
    )
