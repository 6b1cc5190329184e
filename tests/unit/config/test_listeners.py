from __future__ import annotations

import pytest

from klamm.config.errors import ConfigurationError
from klamm.config.listeners import Listener, parse_listener


@pytest.mark.parametrize(
    ("text", "listener", "is_wildcard"),
    [
        ("PLAINTEXT://127.0.0.1:9092", Listener("PLAINTEXT", "127.0.0.1", 9092), False),
        ("plaintext://:0", Listener("PLAINTEXT", "", 0), True),
        ("INTERNAL://0.0.0.0:9093", Listener("INTERNAL", "0.0.0.0", 9093), True),
        ("PLAINTEXT://[::1]:9092", Listener("PLAINTEXT", "::1", 9092), False),
        ("PLAINTEXT://[::]:9092", Listener("PLAINTEXT", "::", 9092), True),
    ],
)
def test_a_listener_is_read_as_kafka_reads_it(text: str, listener: Listener, is_wildcard: bool) -> None:
    """A listener is parsed as in Kafka: name, host (empty for all addresses, IPv6 in brackets) and port."""
    assert parse_listener(text) == listener
    assert parse_listener(str(listener)) == listener
    assert listener.is_wildcard is is_wildcard


@pytest.mark.parametrize("text", ["", "9092", "localhost:9092", "PLAINTEXT://host"])
def test_what_is_no_listener_is_refused_with_an_example(text: str) -> None:
    """An invalid listener is refused with a message that shows the required form."""
    with pytest.raises(ConfigurationError, match="NAME://HOST:PORT"):
        parse_listener(text)


@pytest.mark.parametrize("port", ["70000", "-1", "9" * 5000])
def test_a_port_out_of_range_is_refused(port: str) -> None:
    """A port out of range is refused with an error that gives the range."""
    with pytest.raises(ConfigurationError, match="ports are from 0, any free one, to 65535"):
        parse_listener(f"PLAINTEXT://host:{port}")
