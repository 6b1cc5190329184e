"""Tests that Kafka's keys are understood, and that any other key is an error that names the key."""

from __future__ import annotations

import pytest

from klamm.client.config import ClientConfig, parse_bootstrap_servers
from klamm.client.errors import ClientConfigError


def test_keys_are_kafkas() -> None:
    """Numbers, names and booleans are parsed, and other keys have their defaults."""
    config = ClientConfig.from_mapping(
        {
            "bootstrap.servers": "a:1, b:2",
            "client.id": "me",
            "request.timeout.ms": "5",
            "isolation.level": "READ_COMMITTED",
            "check.crcs": "false",
            "receive.buffer.bytes": "-1",
            "security.protocol": "plaintext",
        }
    )

    assert config == ClientConfig(
        (("a", 1), ("b", 2)),
        client_id="me",
        request_timeout_ms=5,
        isolation_level="read_committed",
        check_crcs=False,
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("bootstrap.servers", ""),
        ("bootstrap.servers", "host"),
        ("bootstrap.servers", "host:0"),
        ("bootstrap.servers", "host:65536"),
        ("bootstrap.servers", "host:port"),
        ("bootstrap.servers", "::1:9092"),
        ("request.timeout.ms", "soon"),
        ("request.timeout.ms", "-1"),
        ("request.timeout.ms", str(2**31)),
        ("isolation.level", "serializable"),
        ("check.crcs", "perhaps"),
        ("security.protocol", "TLS"),
        ("ssl.no.such.key", "1"),
        ("acks", "all"),
    ],
)
def test_what_is_not_understood_is_named(key: str, value: str) -> None:
    """An invalid key or value is an error that names the key, so that a typing error does not become a default."""
    with pytest.raises(ClientConfigError, match=key.replace(".", r"\.")):
        ClientConfig.from_mapping({"bootstrap.servers": "a:1", key: value})


def test_addresses_may_be_ipv6_or_carry_a_listener() -> None:
    """An address can be an IPv6 address or have a listener name, as in Kafka's clients."""
    assert parse_bootstrap_servers("[::1]:9092,PLAINTEXT://h:1") == (("::1", 9092), ("h", 1))
