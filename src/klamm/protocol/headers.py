"""Handwritten codecs of request and response headers, because every frame has one.

A request's header is v2 (a tagged section at the end) in flexible versions of its API, and v1 in earlier versions. In
both, the client id has an int16 length, so that a broker can read the header of an ApiVersions request of an unknown
version. A response's header is v1 in flexible versions, but always v0 for ApiVersions (KIP-511).
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from klamm.protocol.api import API_SPECS
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.schema.api_keys import ApiKey
from klamm.protocol.varint import skip_tagged_fields

__all__ = [
    "RequestHeader",
    "decode_request_header",
    "decode_response_header",
    "encode_request_header",
    "encode_response_header",
    "has_flexible_response_header",
]

_FIXED: Final = Struct(">hhih")
_CORRELATION: Final = Struct(">i")
# A number above every version: an API without flexible versions, or an unknown one, has header v1.
_NEVER: Final = 1 << 16
_FLEXIBLE_FROM: Final[dict[int, int]] = {
    int(key): _NEVER if spec.flexible_from is None else spec.flexible_from for key, spec in API_SPECS.items()
}


class RequestHeader(NamedTuple):
    """The header in front of a request's body."""

    api_key: int
    """The number of an ApiKey, or of an unknown API."""
    api_version: int
    correlation_id: int
    client_id: str | None
    end: int
    """Offset of the body."""


def decode_request_header(view: bytes | memoryview, offset: int = 0) -> RequestHeader:
    """Decodes the header at `offset`; for an unknown API as v1, so that the refusal can name the client.

    Raises MalformedMessage.
    """
    size = len(view)
    if size - offset < _FIXED.size:
        raise MalformedMessage(f"request header: {size - offset} bytes are too few")
    api_key, api_version, correlation_id, length = _FIXED.unpack_from(view, offset)
    end = offset + _FIXED.size
    client_id = None
    if length >= 0:
        start, end = end, end + length
        if end > size:
            raise MalformedMessage("request header: the client id is longer than the bytes that remain")
        try:
            client_id = str(view[start:end], "utf-8")
        except UnicodeDecodeError:
            raise MalformedMessage("request header: the client id is not UTF-8") from None
    if api_version >= _FLEXIBLE_FROM.get(api_key, _NEVER):
        end = _skip_tagged_fields(view, end)
    return RequestHeader(api_key, api_version, correlation_id, client_id, end)


def _skip_tagged_fields(view: bytes | memoryview, position: int) -> int:
    try:
        # Clients send no tagged fields: a single zero byte, for which a view is not worth its cost.
        return skip_tagged_fields(memoryview(view), position) if view[position] else position + 1
    except IndexError:
        raise MalformedMessage("header: ends before or inside the tagged fields") from None


def encode_request_header(api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Encodes the header in front of a request's body, for a client."""
    text = b"" if client_id is None else client_id.encode()
    header = _FIXED.pack(api_key, api_version, correlation_id, -1 if client_id is None else len(text)) + text
    return header + b"\x00" if api_version >= _FLEXIBLE_FROM.get(api_key, _NEVER) else header


def has_flexible_response_header(api_key: int, api_version: int) -> bool:
    """Returns whether the response to a request of this version has header v1."""
    return api_key != ApiKey.API_VERSIONS and api_version >= _FLEXIBLE_FROM.get(api_key, _NEVER)


def encode_response_header(correlation_id: int, flexible: bool) -> bytes:
    """Encodes the header in front of a response's body: v1 if `flexible`, else v0."""
    return _CORRELATION.pack(correlation_id) + b"\x00" if flexible else _CORRELATION.pack(correlation_id)


def decode_response_header(
    api_key: int, api_version: int, view: bytes | memoryview, offset: int = 0
) -> tuple[int, int]:
    """Returns (correlation id, offset of the body) of the response to a request of this version.

    Raises MalformedMessage.
    """
    flexible = has_flexible_response_header(api_key, api_version)
    size = len(view)
    end = offset + _CORRELATION.size
    if size < end:
        raise MalformedMessage(f"response header: {size - offset} bytes are too few")
    (correlation_id,) = _CORRELATION.unpack_from(view, offset)
    if flexible:
        end = _skip_tagged_fields(view, end)
    return correlation_id, end
