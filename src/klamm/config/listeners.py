"""The addresses on which a broker listens, and those for clients: Kafka's `listeners` and `advertised.listeners`."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from klamm.config.errors import ConfigurationError

__all__ = ["Listener", "parse_listener"]

# As Kafka's SocketServerConfigs.URI_PARSE_REGEXP: name; host, which may be empty or an IPv6 address in brackets; port.
_URI: Final = re.compile(r"^(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
_WILDCARDS: Final = frozenset({"", "0.0.0.0", "::"})
_MAX_PORT: Final = 65535


class Listener(NamedTuple):
    """One endpoint: `name` is Kafka's listener name, an empty `host` means every address, port 0 picks a free port."""

    name: str
    host: str
    port: int

    @property
    def is_wildcard(self) -> bool:
        """Whether the listener accepts on every address, so that its host is no usable address for clients."""
        return self.host in _WILDCARDS

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches the listener."""
        return self.host.lower() == "localhost" or self.host == "::1" or self.host.startswith("127.")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_listener(text: str) -> Listener:
    """Parses `NAME://host:port` as Kafka does. Raises ConfigurationError for any other text."""
    match = _URI.match(text.strip())
    if match is not None and not 0 <= int(match[3][:9]) <= _MAX_PORT:
        raise ConfigurationError(f"{text!r} has port {match[3][:9]}; ports are from 0, any free one, to {_MAX_PORT}")
    if match is None:
        raise ConfigurationError(
            f"{text!r} is not a listener: NAME://HOST:PORT is needed, such as PLAINTEXT://127.0.0.1:9092"
        )
    return Listener(match[1].upper(), match[2], int(match[3]))
