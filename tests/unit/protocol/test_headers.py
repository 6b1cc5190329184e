"""Tests request and response headers against the schema, also for unknown APIs and versions."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.api import API_SPECS, ApiKey
from klamm.protocol.codec import decode, encode
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
    has_flexible_response_header,
)
from klamm.protocol.schema.request_header import RequestHeader as RequestHeaderMessage
from klamm.protocol.schema.response_header import ResponseHeader as ResponseHeaderMessage

int32 = st.integers(-(2**31), 2**31 - 1)
client_ids = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
apis = st.sampled_from(
    [(spec.key, version) for spec in API_SPECS.values() for version in range(spec.min_version, spec.max_version + 2)]
)


@given(apis, int32, client_ids)
def test_a_request_header_is_what_the_schema_says(
    api: tuple[ApiKey, int], correlation_id: int, client_id: str | None
) -> None:
    """The hand-written codec encodes request headers as the schema's codec does, also in the next, unknown version."""
    key, version = api
    message = RequestHeaderMessage(
        request_api_key=key, request_api_version=version, correlation_id=correlation_id, client_id=client_id
    )
    expected = encode(message, 2 if API_SPECS[key].is_flexible(version) else 1)
    assert encode_request_header(key, version, correlation_id, client_id) == expected
    for frame in (b"xx" + expected + b"body", memoryview(b"xx" + expected + b"body")):
        header = decode_request_header(frame, 2)
        assert header == RequestHeader(key, version, correlation_id, client_id, len(expected) + 2)


@given(apis, int32)
def test_a_response_header_is_what_the_schema_says(api: tuple[ApiKey, int], correlation_id: int) -> None:
    """A response header has version 1 in flexible versions of the API, except in responses to ApiVersions."""
    key, version = api
    flexible = API_SPECS[key].is_flexible(version) and key is not ApiKey.API_VERSIONS
    assert has_flexible_response_header(key, version) is flexible
    expected = encode(ResponseHeaderMessage(correlation_id=correlation_id), int(flexible))
    assert encode_response_header(correlation_id, flexible) == expected
    assert decode_response_header(key, version, memoryview(b"x" + expected), 1) == (correlation_id, len(expected) + 1)
    assert decode(ResponseHeaderMessage, int(flexible), expected)[1] == len(expected)


def test_api_versions_of_the_future_has_a_header_that_can_be_read() -> None:
    """An ApiVersions request in an unknown version has a readable header. The broker must understand the request,
    because its response tells the client the broker's versions (KIP-511)."""
    frame = encode_request_header(ApiKey.API_VERSIONS, 99, 7, "newer") + b"what comes then is unknown"
    header = decode_request_header(frame)
    assert (header.api_version, header.correlation_id, header.client_id) == (99, 7, "newer")


def test_the_header_of_an_unknown_api_is_read_as_far_as_it_goes() -> None:
    """The header of an unknown API is decoded, so that the refusal can name the client."""
    assert decode_request_header(b"\x03\xe8\x00\x00\x00\x00\x00\x05\x00\x02me") == (1000, 0, 5, "me", 12)
    assert decode_request_header(b"\xff\xff\xff\xff\x00\x00\x00\x05\xff\xff") == (-1, -1, 5, None, 10)


def test_unknown_tagged_fields_of_a_header_are_skipped() -> None:
    """The decoders skip unknown tagged fields of request and response headers."""
    header = decode_request_header(
        encode_request_header(ApiKey.METADATA, 12, 1, "me")[:-1] + b"\x01\x05\x02ab" + b"body"
    )
    assert header.end == 12 + 5
    answer = encode_response_header(1, True)[:-1] + b"\x01\x05\x02ab" + b"body"
    assert decode_response_header(ApiKey.METADATA, 12, answer) == (1, 9)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00\x03\x00\x0c\x00\x00\x00\x01\x00",
        b"\x00\x03\x00\x04\x00\x00\x00\x01\x00\x05me",
        b"\x00\x03\x00\x04\x00\x00\x00\x01\x00\x02\xff\xfe",
        b"\x00\x03\x00\x0c\x00\x00\x00\x01\x00\x02me",
        b"\x00\x03\x00\x0c\x00\x00\x00\x01\x00\x02me\x01\x05\x7fab",
        b"\x00\x03\x00\x0c\x00\x00\x00\x01\x00\x02me\xff\xff\xff\xff\xff\xff",
    ],
    ids=["nothing", "no length", "short client id", "no UTF-8", "no tags", "long tag", "long varint"],
)
def test_a_malformed_request_header_is_refused(frame: bytes) -> None:
    """Every malformed request header raises MalformedMessage, so that the caller can close the connection."""
    with pytest.raises(MalformedMessage):
        decode_request_header(frame)


@pytest.mark.parametrize("frame", [b"\x00\x00\x00", b"\x00\x00\x00\x01", b"\x00\x00\x00\x01\x01\x05"])
def test_a_malformed_response_header_is_refused(frame: bytes) -> None:
    """A malformed response header raises MalformedMessage in the client."""
    with pytest.raises(MalformedMessage):
        decode_response_header(ApiKey.METADATA, 12, frame)


@given(st.binary(max_size=40))
def test_garbage_is_a_header_or_malformed(frame: bytes) -> None:
    """Any bytes from the network decode to a header or raise MalformedMessage, and no other error."""
    with suppress(MalformedMessage):
        assert decode_request_header(memoryview(frame)).end <= len(frame)
    with suppress(MalformedMessage):
        assert decode_response_header(ApiKey.FETCH, 12, memoryview(frame))[1] <= len(frame)
