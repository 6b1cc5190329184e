"""Converts messages of the protocol to plain data for `json.dumps`."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, TypeAlias

from klamm.protocol.consumer_protocol import decode_assignment, decode_subscription
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.message import Message, fields_of

__all__ = ["Plain", "plain", "uuid_text"]

Plain: TypeAlias = dict[str, Any]


def plain(message: Message) -> Plain:
    """Returns the message's fields by name, with ids as Kafka writes them and other bytes in base64.

    Decodes the bytes that members exchange through the coordinator (subscription, assignment, metadata of a protocol)
    if they are in the format of Kafka's consumers.
    """
    return {
        field.name: _value(field.name, field.type, getattr(message, field.name)) for field in fields_of(type(message))
    }


def uuid_text(data: bytes) -> str:
    """Returns an id as Kafka writes it: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _value(name: str, kind: str, value: Any) -> Any:
    if isinstance(value, Message):
        return plain(value)
    if isinstance(value, list | tuple):
        return [_value(name, kind.removeprefix("[]"), each) for each in value]
    if not isinstance(value, bytes | memoryview | bytearray):
        return value
    data = bytes(value)
    if kind == "uuid":
        return uuid_text(data)
    opened = _opened(name, data)
    return opened if opened is not None else base64.b64encode(data).decode()


def _opened(name: str, data: bytes) -> Plain | None:
    decode = _OPENED.get(name)
    if decode is None or not data:
        return None
    try:
        return plain(decode(data))
    except MalformedMessage:
        return None


_OPENED: dict[str, Callable[[bytes], Message]] = {
    "subscription": decode_subscription,
    "assignment": decode_assignment,
    "metadata": decode_subscription,
}
"""Decoders by field name. The bytes in `metadata` are a classic member's subscription for a protocol."""
