"""Where the leaders that a Produce or Fetch answer names can be reached (KIP-951), to save a Metadata request."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from klamm.protocol.errors import MalformedMessage
from klamm.protocol.types import BrokerId
from klamm.protocol.varint import encode_unsigned_varint, read_tagged_fields, read_unsigned_varint, skip_tagged_fields

__all__ = ["NodeEndpoint", "decode_node_endpoints", "encode_node_endpoints"]

_INT32: Final = Struct(">i")
# Node id, host, port, rack and tagged fields can't be shorter.
_MINIMUM_BYTES: Final = 11


class NodeEndpoint(NamedTuple):
    """Address of a broker."""

    node_id: BrokerId
    host: str
    port: int
    rack: str | None = None


def encode_node_endpoints(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """The tagged fields that end a Produce or Fetch answer: field 0 with the endpoints, or none if there are none."""
    if not endpoints:
        return b"\x00"
    parts = [encode_unsigned_varint(len(endpoints) + 1)]
    for node_id, host, port, rack in endpoints:
        encoded_host = host.encode()
        parts += (_INT32.pack(node_id), encode_unsigned_varint(len(encoded_host) + 1), encoded_host, _INT32.pack(port))
        if rack is None:
            parts.append(b"\x00\x00")
        else:
            encoded_rack = rack.encode()
            parts += (encode_unsigned_varint(len(encoded_rack) + 1), encoded_rack, b"\x00")
    field = b"".join(parts)
    return b"\x01\x00" + encode_unsigned_varint(len(field)) + field


def decode_node_endpoints(view: memoryview, position: int) -> list[NodeEndpoint]:
    """The endpoints in the tagged fields at `position`; other fields are skipped.

    Raises `MalformedMessage`; IndexError or struct.error where the data ends within a field.
    """
    endpoints: list[NodeEndpoint] = []
    for tag, field in read_tagged_fields(view, position)[0]:
        if tag == 0:
            endpoints = _decode_field(field)
    return endpoints


def _decode_field(view: memoryview) -> list[NodeEndpoint]:
    count, position = read_unsigned_varint(view, 0)
    count -= 1
    if not 0 <= count <= (len(view) - position) // _MINIMUM_BYTES:
        raise MalformedMessage(f"{count} node endpoints in {len(view) - position} bytes")
    endpoints = []
    for _ in range(count):
        (node_id,) = _INT32.unpack_from(view, position)
        host, position = _decode_string(view, position + 4)
        if host is None:
            raise MalformedMessage("a node endpoint without a host")
        (port,) = _INT32.unpack_from(view, position)
        rack, position = _decode_string(view, position + 4)
        position = skip_tagged_fields(view, position)
        endpoints.append(NodeEndpoint(BrokerId(node_id), host, port, rack))
    return endpoints


def _decode_string(view: memoryview, position: int) -> tuple[str | None, int]:
    length, position = read_unsigned_varint(view, position)
    if not length:
        return None, position
    end = position + length - 1
    if end > len(view):
        raise MalformedMessage(f"a string of {length - 1} bytes reaches beyond the message")
    return str(view[position:end], "utf-8", "replace"), end
