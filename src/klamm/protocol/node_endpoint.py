"""The addresses of the leaders in a Produce or Fetch response (KIP-951), which make a Metadata request unnecessary."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from klamm.protocol.primitives import (
    check_count,
    encode_compact_nullable_string,
    encode_compact_string,
    read_compact_nullable_string,
    read_compact_string,
)
from klamm.protocol.types import BrokerId
from klamm.protocol.varint import encode_unsigned_varint, read_tagged_fields, read_unsigned_varint, skip_tagged_fields

__all__ = ["NodeEndpoint", "decode_node_endpoints", "encode_node_endpoints"]

_INT32: Final = Struct(">i")
# The minimum size of node id, host, port, rack and tagged fields.
_MINIMUM_BYTES: Final = 11


class NodeEndpoint(NamedTuple):
    """The address of a broker."""

    node_id: BrokerId
    host: str
    port: int
    rack: str | None = None


def encode_node_endpoints(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """Encodes the tagged fields at the end of a Produce or Fetch response: field 0 if there are endpoints, or none."""
    if not endpoints:
        return b"\x00"
    parts = [encode_unsigned_varint(len(endpoints) + 1)]
    for node_id, host, port, rack in endpoints:
        parts += (_INT32.pack(node_id), encode_compact_string(host), _INT32.pack(port))
        parts += (encode_compact_nullable_string(rack), b"\x00")
    field = b"".join(parts)
    return b"\x01\x00" + encode_unsigned_varint(len(field)) + field


def decode_node_endpoints(view: memoryview, position: int) -> list[NodeEndpoint]:
    """Decodes the endpoints in the tagged fields at `position`; other fields are skipped.

    Raises `MalformedMessage`; IndexError or struct.error if the data ends within a field.
    """
    endpoints: list[NodeEndpoint] = []
    for tag, field in read_tagged_fields(view, position)[0]:
        if tag == 0:
            endpoints = _decode_field(field)
    return endpoints


def _decode_field(view: memoryview) -> list[NodeEndpoint]:
    count, position = read_unsigned_varint(view, 0)
    check_count(count - 1, view, position, _MINIMUM_BYTES)
    endpoints = []
    for _ in range(count - 1):
        (node_id,) = _INT32.unpack_from(view, position)
        host, position = read_compact_string(view, position + 4)
        (port,) = _INT32.unpack_from(view, position)
        rack, position = read_compact_nullable_string(view, position + 4)
        position = skip_tagged_fields(view, position)
        endpoints.append(NodeEndpoint(BrokerId(node_id), host, port, rack))
    return endpoints
