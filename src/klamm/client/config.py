"""Client configuration: the keys of Kafka's consumer that this client honours.

Names, meanings, units and (unless noted otherwise) defaults are those of
`org.apache.kafka.clients.consumer.ConsumerConfig` of Apache Kafka 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from klamm.client.errors import ClientConfigError
from klamm.client.security import SECURITY_KEYS, Security, is_security_key, parse_security

__all__ = ["Address", "ClientConfig", "HONOURED_KEYS", "IsolationLevel", "is_security_key", "parse_bootstrap_servers"]

Address = tuple[str, int]
"""Host and port."""
IsolationLevel = Literal["read_uncommitted", "read_committed"]

_ADDRESS = re.compile(r"^(?:\[(?P<bracketed>[0-9A-Fa-f:.%]+)\]|(?P<host>[^:\[\]]+)):(?P<port>\d{1,5})$")
_TRUTH = {"true": True, "false": False}
_MAXIMUM_INT: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """The settings of one client; hashable, so that clients with equal settings can be shared."""

    bootstrap_servers: tuple[Address, ...]
    client_id: str = "klamm"
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    socket_connection_setup_timeout_ms: int = 10_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    receive_buffer_bytes: int = -1
    """-1 leaves the size to the operating system, which grows it with the traffic (Kafka's default: 65,536)."""
    send_buffer_bytes: int = -1
    """-1 leaves the size to the operating system (Kafka's default: 131,072)."""
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    fetch_max_wait_ms: int = 500
    max_partition_fetch_bytes: int = 4_194_304
    """Kafka's default is 1,048,576. Here a whole task reads one partition, so that larger responses cost less."""
    isolation_level: IsolationLevel = "read_uncommitted"
    check_crcs: bool = True
    session_timeout_ms: int = 45_000
    """For members of a group; the same applies to `heartbeat_interval_ms`."""
    heartbeat_interval_ms: int = 3_000
    security: Security = field(default_factory=Security)
    """TLS and SASL; neither by default (PLAINTEXT). Its repr shows no secret."""

    @classmethod
    def from_mapping(cls, options: Mapping[str, str]) -> ClientConfig:
        """Returns the settings from Kafka's own keys (`bootstrap.servers`, `request.timeout.ms`, …) and their text
        values.

        Raises `ClientConfigError`, whose text begins with the key and shows no secret, for an unknown key or an invalid
        value. Reads the files that the keys for TLS name.
        """
        if "bootstrap.servers" not in options:
            raise ClientConfigError("bootstrap.servers is missing: give it as host:port[,host:port…]")
        values: dict[str, Any] = {}
        for key, text in options.items():
            if is_security_key(key):
                continue
            if key not in _FIELDS:
                raise ClientConfigError(f"unknown configuration key {key!r}")
            values[_FIELDS[key]] = _parse(key, text)
        values["security"] = parse_security({key: text for key, text in options.items() if is_security_key(key)})
        return cls(**values)


def _parse(key: str, text: str) -> Any:
    if key == "bootstrap.servers":
        return parse_bootstrap_servers(text)
    if key == "client.id":
        return text
    if key == "isolation.level":
        level = text.strip().lower()
        if level not in ("read_uncommitted", "read_committed"):
            raise ClientConfigError(f"isolation.level={text}: it is read_uncommitted or read_committed")
        return level
    if key == "check.crcs":
        if text.strip().lower() not in _TRUTH:
            raise ClientConfigError(f"{key}={text}: it is true or false")
        return _TRUTH[text.strip().lower()]
    try:
        number = int(text)
    except ValueError:
        raise ClientConfigError(f"{key}={text}: it is a whole number") from None
    minimum = -1 if key.endswith("buffer.bytes") else 0
    if not minimum <= number <= _MAXIMUM_INT:
        raise ClientConfigError(f"{key}={text}: it lies between {minimum} and {_MAXIMUM_INT}")
    return number


def parse_bootstrap_servers(text: str) -> tuple[Address, ...]:
    """Parses the addresses in `host:port[,host:port…]`, IPv6 addresses in brackets. Raises `ClientConfigError`."""
    addresses = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        match = _ADDRESS.match(part.rpartition("//")[2])
        if match is None or not 0 < int(match["port"]) <= 65_535:
            raise ClientConfigError(f"bootstrap.servers: {part!r} is not host:port")
        addresses.append((match["bracketed"] or match["host"], int(match["port"])))
    if not addresses:
        raise ClientConfigError("bootstrap.servers is empty: give it as host:port[,host:port…]")
    return tuple(addresses)


_FIELDS: Final[Mapping[str, str]] = {
    field.name.replace("_", "."): field.name for field in fields(ClientConfig) if field.name != "security"
}

HONOURED_KEYS: Final = frozenset(_FIELDS) | SECURITY_KEYS
"""Kafka's keys that have an effect here. Of the other keys that begin with `ssl.` or `sasl.`, some have no meaning
outside of Java and cause a warning; the rest is refused. `is_security_key` tells which keys `from_mapping` handles."""
