"""All APIs, with their versions and their messages.

The version ranges come from the message definitions, without unstable versions. `broker` decides which versions a
broker advertises (for example, Produce from version 0, KAFKA-18659).
"""

from __future__ import annotations

from importlib import import_module
from typing import Final, NamedTuple

from klamm.protocol.message import Message
from klamm.protocol.schema.api_keys import API_TABLE, ApiKey

__all__ = ["API_SPECS", "ApiKey", "ApiSpec"]

_classes: dict[str, type[Message]] = {}


class ApiSpec(NamedTuple):
    """One API as Kafka defines it."""

    key: ApiKey
    min_version: int
    max_version: int
    flexible_from: int | None
    """First version with header v2 (response header v1); None if there is none."""
    module_name: str
    class_name: str
    listeners: tuple[str, ...]
    """The listeners on which Kafka offers the API: "broker", "controller"."""

    @property
    def request_module(self) -> str:
        """The request's module in `klamm.protocol.schema`."""
        return f"{self.module_name}_request"

    @property
    def response_module(self) -> str:
        """The response's module in `klamm.protocol.schema`."""
        return f"{self.module_name}_response"

    def request_class(self) -> type[Message]:
        """Returns the request's class; its module is imported on first use."""
        return _load(self.request_module, f"{self.class_name}Request")

    def response_class(self) -> type[Message]:
        """Returns the response's class; its module is imported on first use."""
        return _load(self.response_module, f"{self.class_name}Response")

    def supports(self, version: int) -> bool:
        """Returns whether Kafka has this version of the API."""
        return self.min_version <= version <= self.max_version

    def is_flexible(self, version: int) -> bool:
        """Returns whether this version has tagged fields, in the header and the body (KIP-482)."""
        return self.flexible_from is not None and version >= self.flexible_from


def _load(module: str, name: str) -> type[Message]:
    found = _classes.get(name)
    if found is None:
        found = _classes[name] = getattr(import_module(f"klamm.protocol.schema.{module}"), name)
    return found


API_SPECS: Final[dict[ApiKey, ApiSpec]] = {ApiKey(row[0]): ApiSpec(ApiKey(row[0]), *row[1:]) for row in API_TABLE}
